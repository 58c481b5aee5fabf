// What the proxies of a service would need, from the idle and per-hop costs that the run measured.
import { meshes } from "./data";
import type { Estimate, ProxyCpu, Summary } from "./summary";
import { significant } from "./words";

const HOURS_PER_MONTH = 730.5;
const GIB = 1024 ** 3;

/** What is to be computed. */
export interface Service {
  proxies: number;
  /** Requests per second that pass through each of them. */
  rps: number;
  core_hour: number;
  gib_hour: number;
}

/** A value with the ends of its interval. Without an interval, both ends are the value. */
export interface Range {
  value: number;
  low: number;
  high: number;
}

export interface Need {
  mesh: string;
  cores: Range;
  /** Absent if the memory of the proxies was not measured. */
  gib: Range | null;
  /** Per month; absent without memory. */
  money: Range | null;
}

function ends(estimate: Estimate): [number, number, number] {
  return [estimate.value, estimate.low ?? estimate.value, estimate.high ?? estimate.value];
}

/** The sum of estimates, each times a factor. Its ends are the sums of theirs, so it is at least as wide as it should be. */
function sum(...parts: [Estimate | Range, number][]): Range {
  const of = (i: 0 | 1 | 2): number =>
    parts.reduce((all, [estimate, factor]) => all + ends(estimate as Estimate)[i] * factor, 0);
  return { value: of(0), low: Math.max(0, of(1)), high: of(2) };
}

function memoryOfProxy(summary: Summary, mesh: string): [Estimate, number] | null {
  for (const cell of summary.cells) {
    const plane = cell.planes["data_plane"];
    if (cell.mesh === mesh && plane && plane.processes > 0) return [plane.memory_bytes, 1 / plane.processes];
  }
  return null;
}

/** The meshes whose cost of a hop is known. */
function known(summary: Summary): (ProxyCpu & { hop_ns: Estimate })[] {
  const order = meshes(summary);
  return (summary.proxy_cpu ?? [])
    .flatMap((cpu) => (cpu.hop_ns ? [{ ...cpu, hop_ns: cpu.hop_ns }] : []))
    .sort((a, b) => order.indexOf(a.mesh) - order.indexOf(b.mesh));
}

/** What the proxies of each mesh need for a service. */
export function needs(summary: Summary, service: Service): Need[] {
  return known(summary).map((cpu) => {
    const idle = service.proxies / Math.max(1, cpu.proxies);
    const cores = sum([cpu.idle_cores, idle], [cpu.hop_ns, (service.proxies * service.rps) / 1e9]);
    const memory = memoryOfProxy(summary, cpu.mesh);
    const gib = memory && sum([memory[0], (memory[1] * service.proxies) / GIB]);
    const money = gib && sum([cores, service.core_hour * HOURS_PER_MONTH], [gib, service.gib_hour * HOURS_PER_MONTH]);
    return { mesh: cpu.mesh, cores, gib, money };
  });
}

function words(range: Range | null): string {
  if (!range) return "-";
  const around = range.low < range.high ? ` (${significant(range.low)} to ${significant(range.high)})` : "";
  return significant(range.value) + around;
}

/** A form for the size of a service, and the table of what its proxies need. */
export function calculator(place: HTMLElement, summary: Summary): void {
  const prices = summary.setup.prices;
  const service: Service = {
    proxies: 100,
    rps: 50,
    core_hour: prices?.core_hour ?? 0,
    gib_hour: prices?.gib_hour ?? 0,
  };
  const fields: [keyof Service, string][] = [
    ["proxies", "proxies"],
    ["rps", "requests per second through each"],
    ["core_hour", "price of a core per hour"],
    ["gib_hour", "of a GiB per hour"],
  ];
  const table = document.createElement("table");
  const fill = (): void => {
    const priced = service.core_hour > 0 || service.gib_hour > 0;
    const money = `per month${prices?.currency ? `, ${prices.currency}` : ""}`;
    const heads = ["proxies of", "cores", "GiB", ...(priced ? [money] : [])];
    const rows = needs(summary, service).map((need) => [
      need.mesh, words(need.cores), words(need.gib), ...(priced ? [words(need.money)] : []),
    ]);
    table.replaceChildren(row(heads, "th"), ...rows.map((cells) => row(cells, "td")));
  };
  const inputs = fields.map(([key, label]) => {
    const outer = document.createElement("label");
    const input = document.createElement("input");
    input.type = "number";
    input.min = "0";
    input.step = "any";
    input.value = String(service[key]);
    input.addEventListener("input", () => {
      service[key] = Math.max(0, Number(input.value) || 0);
      fill();
    });
    outer.append(`${label} `, input);
    return outer;
  });
  const form = document.createElement("div");
  form.className = "controls";
  form.append(...inputs);
  const frame = document.createElement("div");
  frame.className = "scroll";
  frame.append(table);
  place.replaceChildren(form, frame);
  fill();
}

function row(cells: string[], kind: "th" | "td"): HTMLTableRowElement {
  const line = document.createElement("tr");
  line.append(...cells.map((text, i) => {
    const cell = document.createElement(i === 0 ? "th" : kind);
    if (cell.tagName === "TH") cell.setAttribute("scope", kind === "th" ? "col" : "row");
    cell.textContent = text;
    return cell;
  }));
  return line;
}
