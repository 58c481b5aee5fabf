// The answers as a chart: latency of the typical run, CPU and memory of all meshes under the load of the answers. Bars from
// zero with an interval or a range; beside them the ratio to the baseline.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import type { Chart } from "../figure";
import type { Cell, Estimate, Load, QuantileSpread, Ratio, Summary } from "../summary";
import { BASE, colour, GRID, INK, QUIET, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds, ratioBrief, ratioDetails, ratioInterval, short, significant, signWords, SPREADS } from "../words";
import { compose } from "./layout";

interface Value {
  value: number;
  low: number | null;
  high: number | null;
  spread: QuantileSpread | null;
}

interface Bar extends Value {
  figure: Figure;
  mesh: string;
  words: string;
  /** The same figure divided by that of the baseline. */
  ratio: Ratio | null;
  /** Whether used trials of the mesh reached a limit, in words. */
  saturated: string[];
}

interface Figure {
  name: string;
  /** Name of the same figure among the ratios. */
  what: string;
  of: (cell: Cell) => Value | null;
  words: (value: number) => string;
  /** What a mesh with used trials but without this figure has. */
  absent: string;
}

const MIB = 1024 * 1024;

function percentile(name: string): Figure["of"] {
  return (cell) => {
    const q = cell.latency.find((l) => l.name === name && l.supported);
    const ms = (ns: number | null): number | null => (ns === null ? null : ns / 1e6);
    return q ? { value: q.value_ns / 1e6, low: ms(q.low_ns), high: ms(q.high_ns), spread: q.spread } : null;
  };
}

function scaled(e: Estimate | null | undefined, by: number): Value | null {
  if (!e) return null;
  const to = (x: number | null): number | null => (x === null ? null : x / by);
  return { value: e.value / by, low: to(e.low), high: to(e.high), spread: e.low === null ? null : "interval" };
}

const FIGURES: Figure[] = [
  { name: "Median latency", what: "p50", of: percentile("p50"), words: milliseconds, absent: "too few responses" },
  { name: "99th percentile", what: "p99", of: percentile("p99"), words: milliseconds, absent: "too few responses" },
  {
    name: "CPU per 1,000 rps, data plane",
    what: "proxy_cpu",
    of: (cell) => scaled(cell.planes.data_plane?.cpu_cores_per_krps, 1),
    words: (v) => `${significant(v)} cores`,
    absent: "none",
  },
  {
    name: "Memory, data plane",
    what: "memory",
    of: (cell) => scaled(cell.planes.data_plane?.memory_bytes, MIB),
    words: (v) => `${significant(v)} MiB`,
    absent: "none",
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
  const bars = barsOf(summary, load);
  if (bars.length === 0) return [];
  return [
    {
      title: `At a glance, ${loadWords(load)}`,
      description: bars.map((b) => [`${b.mesh}, ${b.figure.name}: ${b.words}`, ...beside(summary, b)].join(", ")).join("; "),
      note: note(bars),
      file: "tare-at-a-glance",
      rows: bars.map(({ figure, mesh, value, low, high, spread, words, ratio }) => ({
        figure: figure.name, mesh, value, low, high, spread, words, ratio: ratio?.value ?? null, ratio_low: ratio?.low ?? null,
        ratio_high: ratio?.high ?? null, outcome: ratio?.outcome ?? null,
      })),
      draw: (width) => draw(summary, load, bars, width),
    },
  ];
}

function barsOf(summary: Summary, load: Load): Bar[] {
  const toBaseline = summary.comparisons.filter((c) => c.load === load.name && c.reference === summary.baseline);
  return FIGURES.flatMap((figure) =>
    cellsOf(summary, load).flatMap((cell): Bar[] => {
      const found = figure.of(cell);
      if (!found) return [];
      const ratios = toBaseline.find((c) => c.mesh === cell.mesh)?.ratios;
      const ratio = ratios?.find((r) => r.what === figure.what) ?? null;
      const saturated = cell.saturation ? [`saturated in ${cell.saturation.trials} of ${cell.trials_used.length} trials`] : [];
      return [{ figure, mesh: cell.mesh, ...found, words: figure.words(found.value), ratio, saturated }];
    }),
  );
}

/** What stands beside the value of a bar, in words. */
function beside(summary: Summary, { figure, low, high, spread, ratio, saturated }: Bar): string[] {
  const between = low === null || high === null || !spread ? [] : [`${SPREADS[spread]} ${figure.words(low)} to ${figure.words(high)}`];
  const compared = ratio ? [`ratio to ${summary.baseline} ${ratioInterval(ratio)}`, ...ratioDetails(ratio)] : [];
  return [...between, ...compared, ...saturated];
}

function note(bars: Bar[]): string {
  const isLatency = (b: Bar): boolean => b.figure.words === milliseconds;
  const spreads = [...new Set(bars.filter(isLatency).flatMap((b) => b.spread ?? []))];
  const ends = spreads.map((s) => (s === "range" ? "the range of the trials" : "its interval")).join(" or ");
  const signs = signWords(bars.flatMap((b) => b.ratio ?? []));
  return [
    ...(bars.some(isLatency) ? [`Latency: the typical run (the median of the trials)${ends ? `, with ${ends}` : ""}.`] : []),
    ...(bars.some((b) => !isLatency(b) && b.spread) ? ["CPU and memory: the mean with its interval."] : []),
    ...(bars.some((b) => b.ratio) ? [`Ratio: by block, with its interval${signs ? `; ${signs}` : ""}.`] : []),
  ].join(" ");
}

const LABELS = 114;
const VALUES = 86;
const HEAD = 26;

function draw(summary: Summary, load: Load, bars: Bar[], width: number): SVGSVGElement {
  const names = meshes(summary);
  const figures = FIGURES.filter((f) => bars.some((b) => b.figure === f));
  const columns = width >= 520 ? 2 : 1;
  const labels = Math.min(LABELS, 18 + 7.4 * Math.max(...names.map((n) => short(n, names).length)));
  const panel = (width - labels) / columns;
  const ratios = 14 + 6.4 * Math.max(...bars.map((b) => (b.ratio ? ratioBrief(b.ratio).length : 0)));
  // Without room beside the bars, each ratio is below its bar.
  const below = panel - VALUES - ratios < 130;
  const heightOf = (figure: Figure): number => {
    const two = below && bars.some((b) => b.figure === figure && b.ratio);
    return HEAD + 12 + names.length * (two ? 48 : Math.max(24, Math.min(38, 190 / names.length)));
  };
  let y = 0;
  const parts = figures.flatMap((_, start) => {
    if (start % columns > 0) return [];
    const here = figures.slice(start, start + columns);
    const height = Math.max(...here.map(heightOf));
    const drawn = here.map((figure, i) => ({
      svg: one(summary, load, names, bars.filter((b) => b.figure === figure), {
        figure, width: panel + (i === 0 ? labels : 0), height, marginLeft: i === 0 ? labels : 8, labelled: i === 0,
        alone: columns === 1, ratios: below ? null : ratios,
      }),
      x: i === 0 ? 0 : labels + i * panel,
      y,
    }));
    y += height + 6;
    return drawn;
  });
  return compose(parts, width, y);
}

interface Options {
  figure: Figure;
  width: number;
  height: number;
  marginLeft: number;
  labelled: boolean;
  /** Whether no other panel is beside it. */
  alone: boolean;
  /** Width of the ratios beside the bars; null if they are below the bars. */
  ratios: number | null;
}

function one(summary: Summary, load: Load, names: string[], bars: Bar[], o: Options): SVGSVGElement {
  const fill = (b: Bar): string => colour(summary, b.mesh);
  const most = Math.max(...bars.map((b) => Math.max(b.value, b.high ?? 0)));
  const absent = (name: string): string => {
    const cell = summary.cells.find((c) => c.mesh === name && c.load === load.name);
    return cell && cell.trials_used.length > 0 ? o.figure.absent : "no usable trial";
  };
  const compared = bars.filter((b) => b.ratio !== null);
  const below = o.ratios === null && compared.length > 0;
  const dy = below ? -9 : 0;
  const ratioWords = (b: Bar): string => (b.ratio ? ratioBrief(b.ratio) : "");
  const different = (b: Bar): boolean => b.ratio?.outcome === "different";
  const ratioAt = below ? { x: () => 0, dx: 7, dy: 9 } : { frameAnchor: "right" as const, dx: VALUES };
  const head = { text: (t: string) => t, dy: -HEAD + 6 };
  return Plot.plot({
    ...BASE,
    width: o.width, height: o.height,
    marginLeft: o.marginLeft, marginRight: VALUES + (o.ratios ?? 0), marginTop: HEAD, marginBottom: 6,
    x: { domain: [0, most], axis: null },
    y: { domain: names, label: null, tickSize: 0, padding: below ? 0.64 : 0.34, axis: null },
    marks: [
      Plot.text([o.figure.name], { ...head, frameAnchor: "top-left", dx: o.alone ? 6 - o.marginLeft : 0, fontSize: 12.5, fontWeight: 600 }),
      Plot.text(compared.length > 0 ? [`ratio to ${short(summary.baseline, names)}`] : [], {
        ...head, frameAnchor: "top-right", textAnchor: below ? "end" : "start", dx: below ? VALUES - 12 : VALUES, fill: QUIET,
      }),
      ...(o.labelled
        ? [Plot.text(names, { x: () => 0, y: (n: string) => n, text: (n: string) => short(n, names), textAnchor: "end" as const, dx: -10, dy, fontWeight: 600, fontSize: 12.5, fill: (n: string) => colour(summary, n) })]
        : []),
      Plot.barX(bars, { x: "value", y: "mesh", fill, rx2: 3, dy }),
      Plot.link(bars.filter((b) => b.low !== null), { x1: "low", x2: "high", y1: "mesh", y2: "mesh", stroke: INK, strokeWidth: 1.5, dy }),
      Plot.tickX(bars.filter((b) => b.low !== null), { x: "low", y: "mesh", stroke: INK, strokeWidth: 1.5, insetTop: 6, insetBottom: 6, dy }),
      Plot.tickX(bars.filter((b) => b.high !== null), { x: "high", y: "mesh", stroke: INK, strokeWidth: 1.5, insetTop: 6, insetBottom: 6, dy }),
      Plot.text(bars, { x: (b: Bar) => Math.max(b.value, b.high ?? 0), y: "mesh", text: "words", textAnchor: "start", dx: 7, dy, fontWeight: 600 }),
      ...[true, false].map((strong) =>
        Plot.text(compared.filter((b) => different(b) === strong), { ...ratioAt, y: "mesh", text: ratioWords, textAnchor: "start", fontWeight: strong ? 600 : 400, fill: strong ? INK : QUIET })),
      Plot.text(names.filter((n) => !bars.some((b) => b.mesh === n)), { x: () => 0, y: (n: string) => n, text: absent, textAnchor: "start", dx: 7, dy, fill: QUIET }),
      Plot.ruleX([0], { stroke: GRID, strokeWidth: 1.5 }),
      Plot.tip(bars, Plot.pointerY({ x: "value", y: "mesh", title: (b: Bar) => [b.mesh, b.figure.name, b.words, ...beside(summary, b)].join("\n"), ...TIP })),
    ],
  }) as SVGSVGElement;
}
