// The answers as a chart: latency, CPU and memory of all meshes under the load of the answers, bars from zero, with
// intervals.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import type { Chart } from "../figure";
import type { Cell, Estimate, Load, Summary } from "../summary";
import { BASE, colour, GRID, INK, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds, short, significant } from "../words";
import { compose } from "./layout";

interface Bar {
  figure: string;
  mesh: string;
  value: number;
  low: number | null;
  high: number | null;
  words: string;
}

interface Figure {
  name: string;
  of: (cell: Cell) => { value: number; low: number | null; high: number | null } | null;
  words: (value: number) => string;
}

const MIB = 1024 * 1024;

function percentile(name: string): Figure["of"] {
  return (cell) => {
    const q = cell.latency.find((l) => l.name === name && l.supported);
    if (!q) return null;
    return { value: q.value_ns / 1e6, low: q.low_ns === null ? null : q.low_ns / 1e6, high: q.high_ns === null ? null : q.high_ns / 1e6 };
  };
}

function scaled(e: Estimate | null | undefined, by: number): { value: number; low: number | null; high: number | null } | null {
  if (!e) return null;
  return { value: e.value / by, low: e.low === null ? null : e.low / by, high: e.high === null ? null : e.high / by };
}

const FIGURES: Figure[] = [
  { name: "Median latency", of: percentile("p50"), words: milliseconds },
  { name: "99th percentile", of: percentile("p99"), words: milliseconds },
  {
    name: "CPU per 1,000 rps, data plane",
    of: (cell) => scaled(cell.planes.data_plane?.cpu_cores_per_krps, 1),
    words: (v) => `${significant(v)} cores`,
  },
  {
    name: "Memory, data plane",
    of: (cell) => scaled(cell.planes.data_plane?.memory_bytes, MIB),
    words: (v) => `${significant(v)} MiB`,
  },
];

/** The load of the answers. */
export function answerLoad(summary: Summary): Load | undefined {
  const name = summary.answers[0]?.load;
  const highest = [...summary.setup.loads].sort((a, b) => b.rate_rps - a.rate_rps)[0];
  return summary.setup.loads.find((l) => l.name === name) ?? highest;
}

export function headline(view: View): Chart[] {
  const { summary } = view;
  const load = answerLoad(summary);
  if (!load) return [];
  const cells = cellsOf(summary, load);
  const bars = FIGURES.flatMap((figure) =>
    cells.flatMap((cell): Bar[] => {
      const found = figure.of(cell);
      if (!found) return [];
      return [{ figure: figure.name, mesh: cell.mesh, ...found, words: figure.words(found.value) }];
    }),
  );
  if (bars.length === 0) return [];
  return [
    {
      title: `At a glance, ${loadWords(load)}`,
      description: bars.map((b) => `${b.mesh}, ${b.figure}: ${b.words}`).join("; "),
      file: "tare-at-a-glance",
      rows: bars,
      draw: (width) => draw(summary, bars, width),
    },
  ];
}

const LABELS = 96;
const HEAD = 26;

function draw(summary: Summary, bars: Bar[], width: number): SVGSVGElement {
  const names = meshes(summary);
  const figures = FIGURES.map((f) => f.name).filter((f) => bars.some((b) => b.figure === f));
  // In narrower columns the longest heading would overlap its neighbour.
  const columns = width >= 980 ? figures.length : width >= 520 ? 2 : 1;
  const labels = Math.min(LABELS, 18 + 7 * Math.max(...names.map((n) => short(n).length)));
  const panel = (width - labels) / columns;
  const row = Math.max(24, Math.min(38, 190 / names.length));
  const height = HEAD + names.length * row + 12;
  const parts = figures.map((figure, i) => {
    const first = i % columns === 0;
    const svg = one(summary, names, bars.filter((b) => b.figure === figure), {
      figure, width: panel + (first ? labels : 0), height, marginLeft: first ? labels : 8, labelled: first,
    });
    return { svg, x: first ? 0 : labels + (i % columns) * panel, y: Math.floor(i / columns) * (height + 6) };
  });
  return compose(parts, width, Math.ceil(figures.length / columns) * (height + 6));
}

function one(
  summary: Summary, names: string[], bars: Bar[],
  o: { figure: string; width: number; height: number; marginLeft: number; labelled: boolean },
): SVGSVGElement {
  const fill = (b: Bar): string => colour(summary, b.mesh);
  const most = Math.max(...bars.map((b) => Math.max(b.value, b.high ?? 0)));
  const load = answerLoad(summary)?.name;
  const absent = (name: string): string => {
    const cell = summary.cells.find((c) => c.mesh === name && c.load === load);
    return cell && cell.trials_used.length > 0 ? "none" : "no usable trial";
  };
  return Plot.plot({
    ...BASE,
    width: o.width, height: o.height,
    marginLeft: o.marginLeft, marginRight: 86, marginTop: HEAD, marginBottom: 6,
    x: { domain: [0, most], axis: null },
    y: { domain: names, label: null, tickSize: 0, padding: 0.34, axis: null },
    marks: [
      Plot.text([o.figure], { text: (t: string) => t, frameAnchor: "top-left", dy: -HEAD + 6, fontSize: 12.5, fontWeight: 600 }),
      ...(o.labelled
        ? [Plot.text(names, { x: () => 0, y: (n: string) => n, text: short, textAnchor: "end" as const, dx: -10, fontWeight: 600, fontSize: 12.5, fill: (n: string) => colour(summary, n) })]
        : []),
      Plot.barX(bars, { x: "value", y: "mesh", fill, rx2: 3 }),
      Plot.link(bars.filter((b) => b.low !== null), { x1: "low", x2: "high", y1: "mesh", y2: "mesh", stroke: INK, strokeWidth: 1.5 }),
      Plot.tickX(bars.filter((b) => b.low !== null), { x: "low", y: "mesh", stroke: INK, strokeWidth: 1.5, insetTop: 6, insetBottom: 6 }),
      Plot.tickX(bars.filter((b) => b.high !== null), { x: "high", y: "mesh", stroke: INK, strokeWidth: 1.5, insetTop: 6, insetBottom: 6 }),
      Plot.text(bars, { x: (b: Bar) => Math.max(b.value, b.high ?? 0), y: "mesh", text: "words", textAnchor: "start", dx: 7, fontWeight: 600 }),
      Plot.text(names.filter((n) => !bars.some((b) => b.mesh === n)), { x: () => 0, y: (n: string) => n, text: absent, textAnchor: "start", dx: 7, fill: "var(--quiet)" }),
      Plot.ruleX([0], { stroke: GRID, strokeWidth: 1.5 }),
      Plot.tip(bars, Plot.pointerY({ x: "value", y: "mesh", title: (b: Bar) => tip(b), ...TIP })),
    ],
  }) as SVGSVGElement;
}

function tip(b: Bar): string {
  const words = FIGURES.find((f) => f.name === b.figure)?.words ?? String;
  const between = b.low === null || b.high === null ? "" : `\n${words(b.low)} to ${words(b.high)}`;
  return `${b.mesh}\n${b.figure}\n${b.words}${between}`;
}
