// The panel with the selected entries: one with its figures, or two with their ratios.
import type { Entry, HistoryData } from "../history_data";
import { ratioInterval } from "../words";
import { compare, differences, shortened, variantsOf } from "./compare";

/** Returns an element with text or children. */
function element(tag: string, content: string | Node[] = "", attributes: Record<string, string> = {}): HTMLElement {
  const made = document.createElement(tag);
  made.append(...(typeof content === "string" ? [content] : content));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function table(head: string[], rows: (string | Node)[][]): HTMLElement {
  const heads = head.map((words, i) => element("th", words, { scope: "col", ...(i === 0 ? { class: "l" } : {}) }));
  const body = rows.map(([first, ...cells]) =>
    element("tr", [element("th", [first ?? ""].map(node), { scope: "row" }), ...cells.map((c) => element("td", [node(c)]))]),
  );
  return element("div", [element("table", [element("thead", [element("tr", heads)]), element("tbody", body)])], { class: "scroll" });
}

function node(content: string | Node): Node {
  return typeof content === "string" ? document.createTextNode(content) : content;
}

function list(items: [string, Node[]][]): HTMLElement {
  return element("dl", items.flatMap(([term, words]) => [element("dt", term), element("dd", words)]));
}

/** One entry: what it is, and its rows of all tables. `hides` are variants without a column. */
export function single(entry: Entry, number: number, hides: (variant: string) => boolean): HTMLElement[] {
  const versions = Object.entries(entry.versions).map(([program, version]) =>
    element("div", `${program}: ${shortened(version ?? "")}`, { title: version ?? "" }),
  );
  const items: [string, Node[]][] = [
    ["time", [node(`${entry.at} UTC`)]],
    ["plan", [node(entry.plan)]],
    ["host", [node(entry.host)]],
  ];
  if (versions.length > 0) items.push(["versions", versions]);
  if (entry.runs.length > 0) items.push(["runs", entry.runs.map(run)]);
  return [
    heading(entry.build),
    element("p", "Select a second build to compare it with this one.", { class: "caption" }),
    element("div", [list(items), figures(number, hides)], { class: "columns" }),
  ];
}

/** A link to a run, if an address of the web is known. */
function run(name: string): HTMLElement {
  if (!/^https?:\/\//.test(name)) return element("div", name);
  return element("div", [element("a", name, { href: name, rel: "noreferrer" })]);
}

/** The figures of an entry in all tables of its group: a row for each figure, a column for each variant with the figure and
 * below it the ratio. */
function figures(number: number, hides: (variant: string) => boolean): HTMLElement {
  const variants: string[] = [];
  const rows = [...document.querySelectorAll<HTMLTableRowElement>(`tr[data-e="${number}"]`)].map((row) => {
    const view = row.closest<HTMLElement>("[data-figure]");
    const found = new Map<string, HTMLElement>();
    view?.querySelectorAll<HTMLElement>("thead th").forEach((head, i) => {
      const { variant } = head.dataset;
      if (variant === undefined || hides(variant)) return;
      if (!variants.includes(variant)) variants.push(variant);
      const words = row.cells[i]?.textContent ?? "";
      const figure = found.get(variant);
      if (figure) figure.append(element("small", words));
      else found.set(variant, element("span", words));
    });
    return { figure: view?.dataset["figure"] ?? "", found };
  });
  return table(["", ...variants], rows.map(({ figure, found }) => [figure, ...variants.map((v) => found.get(v) ?? "")]));
}

/** Two entries: their ratios, and what changed between them. `hides` are variants without a column. */
export function pair(data: HistoryData, earlier: Entry, later: Entry, hides: (variant: string) => boolean): HTMLElement[] {
  const variants = variantsOf(data, later).filter((variant) => !hides(variant));
  const compared = compare(data, earlier, later, variants);
  const severalLoads = new Set(compared.map((c) => c.load)).size > 1;
  const rows = compared.map(({ figure, load, anchor, ratios }) => [
    `${figure}${severalLoads ? ` at ${load}` : ""}${anchor === null ? "" : `, relative to ${anchor}`}`,
    ...ratios.map((ratio) => {
      if (!ratio) return "";
      const resolved = ratio.low !== null && ratio.high !== null && (ratio.low > 1 || ratio.high < 1);
      return resolved ? element("b", ratioInterval(ratio)) : ratioInterval(ratio);
    }),
  ]);
  const changed = differences(earlier, later);
  const items = changed.map(({ what, earlier: from, later: to }): [string, Node[]] => [
    what, [element("div", from), element("div", `→ ${to}`)],
  ]);
  const words =
    "Ratios of the later build to the earlier one; bold if the interval does not contain x1. The interval adds the " +
    "half-widths of both in quadrature. The builds ran at different times: the baseline cancels out only a part of " +
    "changes of the host, and rows without a baseline contain all of them. A gate (tare gate) compares two " +
    "versions at the same time.";
  return [
    heading(`${named(later, earlier)} compared with ${named(earlier, later)}`),
    element("div", [
      rows.length > 0
        ? table(["", ...variants], rows)
        : element("p", "The two builds have no figure in common: their meshes, loads or baselines differ."),
      element("div", [
        element("h3", "What else differs"),
        items.length > 0 ? list(items) : element("p", "Nothing: same plan, host and programs."),
        element("p", words, { class: "caption" }),
      ]),
    ], { class: "columns" }),
  ];
}

/** The build of an entry, with its time if the other one has the same build. */
function named(entry: Entry, other: Entry): string {
  return entry.build === other.build ? `${entry.build} (${entry.at} UTC)` : entry.build;
}

function heading(words: string): HTMLElement {
  return element("h2", words, { tabindex: "-1" });
}
