// CPU and memory: the mesh's planes stacked, bars from zero, the interval as a whisker,
// each run as a dot; beside it what is not the mesh's own.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import type { Chart } from "../figure";
import { choice, type Panel } from "../panel";
import type { Estimate, Load, PlaneEstimate, Summary } from "../summary";
import { BASE, colour, GRID, INK, QUIET, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, short, significant } from "../words";
import { fileWord } from "./ticks";

/** Use of one plane by one mesh. */
export interface PlaneRow {
  mesh: string;
  /** What is stacked: `mesh` holds data and control plane. */
  group: string;
  plane: string;
  /** Where its bar begins: the end of the plane below it. */
  from: number;
  value: number;
  low: number | null;
  high: number | null;
  runs: number[];
}

const PLANES: [keyof Summary["cells"][number]["planes"] & string, string, string][] = [
  ["data_plane", "data plane", "mesh"],
  ["control_plane", "control plane", "mesh"],
  ["application", "application", "application"],
  ["generator_proxy", "generator's proxy", "generator's proxy"],
];

const MEASURES = ["in all", "per process", "per 1,000 rps"] as const;
type Measure = (typeof MEASURES)[number];

interface Kind {
  name: string;
  unit: string;
  measures: readonly Measure[];
  /** The figure, and what it is divided by. */
  pick: (plane: PlaneEstimate, measure: Measure) => [Estimate | null, number];
}

const MIB = 1024 * 1024;
const CPU: Kind = {
  name: "cpu",
  unit: "cores",
  measures: MEASURES,
  pick: (p, measure) =>
    measure === "per 1,000 rps" ? [p.cpu_cores_per_krps, 1] : [p.cpu_cores, measure === "per process" ? p.processes : 1],
};
const MEMORY: Kind = {
  name: "memory",
  unit: "MiB",
  measures: ["in all", "per process"],
  pick: (p, measure) => [p.memory_bytes, MIB * (measure === "per process" ? p.processes : 1)],
};

export const cpu = panel(CPU);
export const memory = panel(MEMORY);

function panel(kind: Kind): Panel {
  let measure: Measure = "in all";
  return {
    controls: (_, redraw) => [
      choice(`${kind.name}: measure`, kind.measures, measure, (chosen) => {
        measure = chosen;
        redraw();
      }),
    ],
    charts: (view) => charts(view, kind, measure),
  };
}

/** One row for each mesh and plane of interest. */
export function planeRows(summary: Summary, load: Load, pick: (p: PlaneEstimate) => [Estimate | null, number]): PlaneRow[] {
  return cellsOf(summary, load).flatMap((cell) => {
    const ends = new Map<string, number>();
    return PLANES.flatMap(([key, plane, group]): PlaneRow[] => {
      const found = cell.planes[key];
      const [e, scale] = found ? pick(found) : [null, 1];
      if (!e) return [];
      const from = ends.get(group) ?? 0;
      ends.set(group, from + e.value / scale);
      return [{
        mesh: cell.mesh, group, plane, from,
        value: e.value / scale,
        low: e.low === null ? null : e.low / scale,
        high: e.high === null ? null : e.high / scale,
        runs: e.runs.map((run) => run / scale),
      }];
    });
  });
}

function charts({ summary }: View, kind: Kind, measure: Measure): Chart[] {
  const of = (load: Load): PlaneRow[] => planeRows(summary, load, (p) => kind.pick(p, measure));
  const all = summary.setup.loads.flatMap(of);
  const most = Math.max(0, ...all.map((r) => r.from + Math.max(r.high ?? 0, r.value)));
  const unit = measure === "in all" ? kind.unit : `${kind.unit} ${measure}`;
  return summary.setup.loads.flatMap((load) => {
    const rows = of(load);
    if (rows.length === 0) return [];
    return [{
      title: loadWords(load),
      description: rows.map((r) => `${r.mesh}, ${r.plane}: ${words(r, unit)}`).join("; "),
      file: `tare-${kind.name}-${fileWord(measure)}-${fileWord(load.name)}`,
      rows,
      draw: (width: number) => draw(summary, rows, unit, most, width),
    }];
  });
}

function words(row: PlaneRow, unit: string): string {
  const whole = `${significant(row.value)} ${unit}`;
  return row.low === null || row.high === null
    ? whole
    : `${whole} (${significant(row.low)} to ${significant(row.high)})`;
}

function draw(summary: Summary, rows: PlaneRow[], unit: string, most: number, width: number): SVGSVGElement {
  const names = meshes(summary).filter((m) => rows.some((r) => r.mesh === m));
  const groups = [...new Set(PLANES.map(([, , group]) => group))].filter((g) => rows.some((r) => r.group === g));
  const control = rows.filter((r) => r.plane === "control plane");
  const full = rows.filter((r) => r.plane !== "control plane");
  const fill = (r: PlaneRow): string => colour(summary, r.mesh);
  const runs = rows.flatMap((r) => r.runs.map((value) => ({ mesh: r.mesh, group: r.group, at: r.from + value })));
  const whiskers = rows.filter((r) => r.low !== null && r.high !== null);
  const tops = rows.filter((r) => !rows.some((o) => o.mesh === r.mesh && o.group === r.group && o.from > r.from));
  const heading = (g: string): string =>
    g === "mesh" ? (control.length > 0 ? "data plane + control plane" : "data plane") : g;
  return Plot.plot({
    ...BASE,
    width,
    height: 58 + groups.length * (names.length * 22 + 30),
    marginLeft: 92, marginRight: 52, marginTop: 20, marginBottom: 40,
    x: { domain: [0, most], nice: true, label: `${unit} →`, labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 110)) },
    y: { domain: names, label: null, tickSize: 0, padding: 0.25, tickFormat: short },
    fy: { domain: groups, label: null, axis: null, padding: 0.22 },
    marks: [
      Plot.gridX({ stroke: GRID, strokeOpacity: 1 }),
      Plot.text(groups, { fy: (g: string) => g, text: heading, frameAnchor: "top-left", dy: -13, dx: -85, fontWeight: 600 }),
      Plot.barX(full, { x1: "from", x2: (r: PlaneRow) => r.from + r.value, y: "mesh", fy: "group", fill, rx2: 2 }),
      Plot.barX(control, { x1: "from", x2: (r: PlaneRow) => r.from + r.value, y: "mesh", fy: "group", fill, fillOpacity: 0.4, stroke: fill, rx2: 2 }),
      Plot.link(whiskers, { x1: (r: PlaneRow) => r.from + (r.low ?? 0), x2: (r: PlaneRow) => r.from + (r.high ?? 0), y1: "mesh", y2: "mesh", fy: "group", stroke: INK, strokeWidth: 1.5 }),
      Plot.dot(runs, { x: "at", y: "mesh", fy: "group", r: 2.2, fill: INK, stroke: "var(--paper)", strokeWidth: 0.8 }),
      Plot.text(tops, {
        x: (r: PlaneRow) => r.from + Math.max(r.high ?? r.value, ...r.runs, r.value), y: "mesh", fy: "group",
        text: (r: PlaneRow) => significant(r.from + r.value), textAnchor: "start", dx: 7, fill: QUIET,
      }),
      Plot.ruleX([0], { stroke: INK }),
      Plot.tip(rows, Plot.pointer({
        x: (r: PlaneRow) => r.from + r.value, y: "mesh", fy: "group",
        title: (r: PlaneRow) => `${r.mesh}, ${r.plane}\n${words(r, unit)}`, ...TIP,
      })),
    ],
  }) as SVGSVGElement;
}
