// CPU and memory: the planes of the mesh stacked, bars from zero, the interval as a whisker, each trial as a dot. Below,
// the application and the generator's proxy.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import { type Chart, fileName } from "../figure";
import { choice, type Panel } from "../panel";
import { overlay, PUBLISHED, type PublishedAtLoad, rowsWithSource, withBound } from "../published";
import type { Bound, Estimate, Load, PlaneEstimate, PublishedFigure, Summary } from "../summary";
import { BASE, colour, GRID, INK, PAPER, QUIET, TIP } from "../theme";
import { loadWords, short, significant } from "../words";

/** Use of one plane by one mesh. */
export interface PlaneRow {
  mesh: string;
  /** The stack: `mesh` has data and control plane. */
  group: string;
  plane: string;
  /** Start of the bar: the end of the plane below it in the stack. */
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

/** A published figure as a bar; only its own control plane is stacked on it. */
interface PublishedRow extends Omit<PlaneRow, "low" | "high" | "runs"> {
  low: null;
  high: null;
  runs: number[];
  bound: Bound;
}

const MEASURES = ["total", "per process", "per 1,000 rps"] as const;
type Measure = (typeof MEASURES)[number];

interface Kind {
  name: string;
  unit: string;
  measures: readonly Measure[];
  /** The figure and its divisor. */
  pick: (plane: PlaneEstimate, measure: Measure) => [Estimate | null, number];
  /** Published figures of the same kind, in the order of the stack, and their divisor. */
  published: { what: string; plane: string; measure: Measure }[];
  publishedScale: number;
}

const MIB = 1024 * 1024;
const CPU: Kind = {
  name: "cpu",
  unit: "cores",
  measures: MEASURES,
  pick: (p, measure) =>
    measure === "per 1,000 rps" ? [p.cpu_cores_per_krps, 1] : [p.cpu_cores, measure === "per process" ? p.processes : 1],
  published: [
    { what: "data_plane_cpu", plane: "data plane", measure: "total" },
    { what: "control_plane_cpu", plane: "control plane", measure: "total" },
    { what: "cpu", plane: "data and control plane", measure: "total" },
    { what: "proxy_cpu", plane: "a proxy", measure: "per process" },
  ],
  publishedScale: 1,
};
const MEMORY: Kind = {
  name: "memory",
  unit: "MiB",
  measures: ["total", "per process"],
  pick: (p, measure) => [p.memory_bytes, MIB * (measure === "per process" ? p.processes : 1)],
  published: [
    { what: "data_plane_memory", plane: "data plane", measure: "total" },
    { what: "control_plane_memory", plane: "control plane", measure: "total" },
    { what: "proxy_memory", plane: "a proxy", measure: "per process" },
    { what: "largest_proxy_memory", plane: "the largest proxy", measure: "per process" },
  ],
  // Publications use MB.
  publishedScale: MIB / 1e6,
};

export const cpu = panel(CPU);
export const memory = panel(MEMORY);

function panel(kind: Kind): Panel {
  let measure: Measure = "total";
  const publishedOverlay = overlay((f) => kind.published.some((p) => p.what === f.what));
  return {
    controls: ({ summary }, redraw) => [
      choice(`Show ${kind.name}`, kind.measures, measure, (chosen) => {
        measure = chosen;
        redraw();
      }),
      ...publishedOverlay.controls(summary, redraw),
    ],
    charts: ({ summary }) => charts(summary, kind, measure, (load) => publishedOverlay.atLoad(summary, load)),
  };
}

/** One row per mesh and plane. */
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

/** The published figures of this measure. */
export function publishedRows(figures: PublishedFigure[], kind: Kind, measure: Measure): PublishedRow[] {
  const ends = new Map<string, number>();
  return kind.published.filter((p) => p.measure === measure).flatMap(({ what, plane }) =>
    figures.filter((f) => f.what === what).map((f): PublishedRow => {
      const value = f.value / kind.publishedScale;
      const from = plane === "control plane" ? (ends.get(f.mesh) ?? 0) : 0;
      ends.set(f.mesh, from + value);
      return { mesh: f.mesh, group: PUBLISHED, plane, from, value, low: null, high: null, runs: [], bound: f.bound };
    }),
  );
}

function charts(summary: Summary, kind: Kind, measure: Measure, publishedOf: (load: Load) => PublishedAtLoad | null): Chart[] {
  const panels = summary.setup.loads.map((load) => {
    const from = publishedOf(load);
    const published = publishedRows(from?.figures ?? [], kind, measure);
    return { load, from, published, rows: planeRows(summary, load, (p) => kind.pick(p, measure)) };
  });
  const ends = panels.flatMap((p) => [...p.rows, ...p.published]).map((r) => r.from + Math.max(r.high ?? 0, r.value));
  const unit = measure === "total" ? kind.unit : `${kind.unit} ${measure}`;
  const scale = { unit, most: Math.max(0, ...ends) };
  return panels.flatMap(({ load, from, published, rows }) => {
    if (rows.length === 0) return [];
    const source = from && `${PUBLISHED}: ${from.source}${published.length > 0 ? "" : ` (no figures: ${measure})`}`;
    const described = [
      rows.map((r) => `${r.mesh}, ${r.plane}: ${words(r, unit)}`).join("; "),
      ...(source ? [[source, ...published.map((r) => `${r.mesh}, ${r.plane}: ${publishedWords(r, unit)}`)].join("; ")] : []),
    ];
    return [{
      title: loadWords(load),
      description: described.join(". For comparison, "),
      file: `tare-${kind.name}-${fileName(measure)}-${fileName(load.name)}`,
      rows: rowsWithSource(rows, from, published),
      draw: (width: number) => draw(summary, rows, { rows: published, source }, scale, width),
    }];
  });
}

function words(row: PlaneRow, unit: string): string {
  const whole = `${significant(row.value)} ${unit}`;
  return row.low === null || row.high === null
    ? whole
    : `${whole} (${significant(row.low)} to ${significant(row.high)})`;
}

function publishedWords(row: PublishedRow, unit: string): string {
  return withBound(`${significant(row.value)} ${unit}`, row.bound);
}

/** A position on the axis: a row of a group, or with an empty name the heading of the group. */
function position(group: string, name: string): string {
  return `${group}\n${name}`;
}

/** The right end of a stack, including whiskers: a whisker of the plane below can be longer than all bars. */
export function reach(rows: PlaneRow[], top: PlaneRow): number {
  const stack = rows.filter((r) => r.mesh === top.mesh && r.group === top.group);
  return Math.max(...stack.map((r) => r.from + Math.max(r.high ?? r.value, ...r.runs, r.value)));
}

function draw(
  summary: Summary,
  rows: PlaneRow[],
  published: { rows: PublishedRow[]; source: string | null },
  { unit, most }: { unit: string; most: number },
  width: number,
): SVGSVGElement {
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
  const elsewhere = published.source ? [PUBLISHED] : [];
  const named = [
    ...groups.flatMap((group) => names.map((name) => ({ group, name }))),
    ...[...new Set(published.rows.map((r) => r.mesh))].map((name) => ({ group: PUBLISHED, name })),
  ];
  const domain = [...groups, ...elsewhere].flatMap((group) => [
    position(group, ""), ...named.filter((n) => n.group === group).map((n) => position(group, n.name)),
  ]);
  const y = (r: { group: string; mesh: string }): string => position(r.group, r.mesh);
  const end = (r: PlaneRow | PublishedRow): number => r.from + r.value;
  // Names in publications are long, because they include versions.
  const wide = elsewhere.length > 0 && width >= 420;
  const left = wide ? 142 : elsewhere.length > 0 ? 100 : 92;
  return Plot.plot({
    ...BASE,
    width,
    height: 50 + domain.length * 25,
    marginLeft: left, marginRight: 52, marginTop: 4, marginBottom: 40,
    x: { domain: [0, most], nice: true, label: `${unit} →`, labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 110)) },
    y: { domain, axis: null, padding: 0.25 },
    marks: [
      Plot.gridX({ stroke: GRID, strokeOpacity: 1 }),
      Plot.text(groups, { y: (g: string) => position(g, ""), text: heading, frameAnchor: "left", textAnchor: "start", dx: 7 - left, dy: 3, fontWeight: 600, stroke: PAPER, strokeWidth: 4, fill: INK }),
      Plot.text(named, { y: (n: { group: string; name: string }) => position(n.group, n.name), text: (n: { name: string }) => (wide ? n.name.slice(0, 24) : short(n.name, meshes(summary))), frameAnchor: "left", textAnchor: "end", dx: -7 }),
      Plot.barX(full, { x1: "from", x2: end, y, fill, rx2: 2 }),
      Plot.barX(control, { x1: "from", x2: end, y, fill, fillOpacity: 0.4, stroke: fill, rx2: 2 }),
      Plot.link(whiskers, { x1: (r: PlaneRow) => r.from + (r.low ?? 0), x2: (r: PlaneRow) => r.from + (r.high ?? 0), y1: y, y2: y, stroke: INK, strokeWidth: 1.5 }),
      Plot.dot(runs, { x: "at", y, r: 2.2, fill: INK, stroke: PAPER, strokeWidth: 0.8 }),
      Plot.text(tops, {
        x: (r: PlaneRow) => reach(rows, r), y,
        text: (r: PlaneRow) => significant(end(r)), textAnchor: "start", dx: 7, fill: QUIET,
      }),
      ...publishedMarks(published, y, left, wide ? 12 : 10),
      Plot.ruleX([0], { stroke: INK }),
      Plot.tip([...rows, ...published.rows], Plot.pointer({
        x: end, y,
        title: (r: PlaneRow | PublishedRow) => `${r.mesh}, ${r.plane}\n${"bound" in r ? `${publishedWords(r, unit)}\n${published.source}` : words(r, unit)}`, ...TIP,
      })),
    ],
  }) as SVGSVGElement;
}

/** Hollow and dashed bars under a heading with their source. */
function publishedMarks(
  { rows, source }: { rows: PublishedRow[]; source: string | null },
  y: (r: { group: string; mesh: string }) => string,
  left: number,
  fontSize: number,
): Plot.Markish[] {
  if (!source) return [];
  const end = (r: PublishedRow): number => r.from + r.value;
  const control = rows.filter((r) => r.plane === "control plane");
  const full = rows.filter((r) => r.plane !== "control plane");
  const style = { x1: "from", x2: end, y, fill: QUIET, stroke: INK, strokeDasharray: "4 3", strokeWidth: 1 } as const;
  return [
    Plot.text([source], { y: () => position(PUBLISHED, ""), frameAnchor: "left", textAnchor: "start", dx: 7 - left, dy: 3, fontStyle: "italic", fontSize, fontWeight: 600, stroke: PAPER, strokeWidth: 4, fill: INK }),
    Plot.barX(full, { ...style, fillOpacity: 0.22 }),
    Plot.barX(control, { ...style, fillOpacity: 0.06 }),
    Plot.text(rows.filter((r) => !rows.some((o) => o.mesh === r.mesh && o.from > r.from)), {
      x: end, y, text: (r: PublishedRow) => withBound(significant(end(r)), r.bound), textAnchor: "start", dx: 7, fill: QUIET, fontStyle: "italic",
    }),
  ];
}
