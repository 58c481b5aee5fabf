// Latency by percentile: both axes logarithmic. A line per mesh is all requests pooled, with the range of the trials as a
// band; a dot with a bar is the typical run.
import * as Plot from "@observablehq/plot";
import { cellsOf, type CurvePoint, curves, meshes, nines, percentile, splitBySupport } from "../data";
import { type Chart, fileName } from "../figure";
import type { Panel } from "../panel";
import { overlay, rowsWithSource } from "../published";
import type { Load, QuantileSpread, Summary } from "../summary";
import { BASE, colour, GRID, INK, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds, short, SPREADS } from "../words";
import { isLatency, type Points, publishedMarks, publishedPoints, SOURCE_HEIGHT } from "./published_latency";
import { logTicks, spreadLabels, tickWords } from "./layout";

const HEIGHT = 360;
const MARGIN = { top: 16, right: 110, bottom: 44, left: 56 };

/** The range of latency over all loads, which share the axis. */
function domain(points: { low: number; high: number }[]): [number, number] {
  const low = Math.min(...points.map((p) => p.low).filter((ms) => ms > 0));
  const high = Math.max(...points.map((p) => p.high));
  return [low / 1.15, high * 1.15];
}

const publishedOverlay = overlay(isLatency);

export const latency: Panel = {
  controls: ({ summary }, redraw) => publishedOverlay.controls(summary, redraw),
  charts: latencyCharts,
};

function latencyCharts({ summary }: View): Chart[] {
  const loads = summary.setup.loads;
  const all = loads.flatMap((load) => curves(cellsOf(summary, load)));
  if (all.length === 0) return [];
  const last = Math.max(...all.map((p) => p.nines));
  const published = loads.map((load) => publishedPoints(publishedOverlay.atLoad(summary, load), last));
  const others = published.flatMap((p) => p?.points ?? []).map(({ ms }) => ({ low: ms, high: ms }));
  const y = domain([...all, ...loads.flatMap((load) => typicalRuns(summary, load)), ...others]);
  return loads.map((load, i) => one(summary, load, published[i] ?? null, y, last));
}

function one(summary: Summary, load: Load, published: Points | null, y: [number, number], last: number): Chart {
  const points = curves(cellsOf(summary, load));
  const dots = typicalRuns(summary, load);
  const words = meshes(summary).flatMap((mesh) => {
    const own = dots.filter((d) => d.mesh === mesh);
    return own.length > 0 ? [`${mesh}: ${own.map((d) => `${d.name} ${milliseconds(d.ms)}${ends(d)}`).join(", ")}`] : [];
  });
  return {
    title: loadWords(load),
    description: [`Latency by percentile of the typical run. ${words.join("; ")}.`, ...(published ? [published.words] : []), "The figures are in the table below."].join(" "),
    file: `tare-latency-${fileName(load.name)}`,
    rows: rowsWithSource([...points.map((p) => ({ ...p, figure: "pooled" })), ...dots.map(rowOf)], published, published?.points ?? []),
    draw: (width) => draw(summary, points, dots, published, y, last, width),
  };
}

/** A percentile of the typical run. */
interface Dot {
  mesh: string;
  name: string;
  q: number;
  nines: number;
  ms: number;
  /** The ends of its interval or range; the value itself if it has none. */
  low: number;
  high: number;
  spread: QuantileSpread | null;
  /** Shift in pixels, so that the bars of several meshes do not overlap. */
  dx: number;
}

export function typicalRuns(summary: Summary, load: Load): Dot[] {
  const cells = cellsOf(summary, load);
  const apart = Math.min(5, 20 / cells.length);
  return cells.flatMap((cell, i) =>
    // The maximum has no place on the axis.
    cell.latency.filter((q) => q.supported && q.q < 1).map((q): Dot => ({
      mesh: cell.mesh, name: q.name, q: q.q, nines: nines(q.q),
      ms: q.value_ns / 1e6, low: (q.low_ns ?? q.value_ns) / 1e6, high: (q.high_ns ?? q.value_ns) / 1e6,
      spread: q.spread, dx: apart * (i - (cells.length - 1) / 2),
    })),
  );
}

function ends(dot: Dot): string {
  return dot.spread ? ` (${SPREADS[dot.spread]} ${milliseconds(dot.low)} to ${milliseconds(dot.high)})` : "";
}

/** A row of the CSV, with the columns of the curve and its own name. */
function rowOf({ mesh, q, nines: at, ms, low, high, spread }: Dot): object {
  const [least, most] = spread ? [low, high] : [null, null];
  return { mesh, q, nines: at, ms, low: least, high: most, supported: true, figure: "typical run", spread };
}

function draw(
  summary: Summary,
  points: CurvePoint[],
  dots: Dot[],
  published: Points | null,
  y: [number, number],
  last: number,
  width: number,
): SVGSVGElement {
  const { supported, unsupported } = splitBySupport(points);
  const fill = (p: CurvePoint): string => colour(summary, p.mesh);
  const ticks = [0.301, 1, 2, 3, 4, 5, 6].filter((t) => t <= last + 0.01);
  return Plot.plot({
    ...BASE,
    width,
    height: HEIGHT + (published ? SOURCE_HEIGHT : 0),
    marginTop: MARGIN.top + (published ? SOURCE_HEIGHT : 0),
    marginRight: MARGIN.right,
    marginBottom: MARGIN.bottom,
    marginLeft: MARGIN.left,
    x: { domain: [0.301, last], ticks, tickFormat: percentile, label: "percentile →", labelAnchor: "right", tickSize: 0 },
    y: { type: "log", domain: y, label: "↑ latency, ms", tickSize: 0 },
    marks: [
      Plot.gridY(logTicks(y), { stroke: GRID, strokeOpacity: 1 }),
      Plot.gridX(ticks, { stroke: GRID, strokeOpacity: 1 }),
      Plot.axisY(logTicks(y), { ticks: Infinity, tickSize: 0, tickPadding: 12, tickFormat: tickWords, label: "↑ latency, ms" }),
      Plot.areaY(supported, { x: "nines", y1: "low", y2: "high", z: "mesh", fill, fillOpacity: 0.16 }),
      Plot.line(supported, { x: "nines", y: "ms", z: "mesh", stroke: fill, strokeWidth: 2.25, strokeLinejoin: "round" }),
      Plot.line(unsupported, { x: "nines", y: "ms", z: "mesh", stroke: fill, strokeWidth: 1.75, strokeDasharray: "1.5 4", strokeLinecap: "round" }),
      ...dots.map((d) =>
        Plot.link([d], { x1: "nines", x2: "nines", y1: "low", y2: "high", stroke: colour(summary, d.mesh), strokeWidth: 2.5, strokeLinecap: "butt", dx: d.dx }),
      ),
      ...dots.map((d) => Plot.dot([d], { x: "nines", y: "ms", r: 3.2, fill: colour(summary, d.mesh), dx: d.dx })),
      ...labels(summary, points, y),
      ...(published ? publishedMarks(published, y, HEIGHT - MARGIN.top - MARGIN.bottom, width) : []),
      Plot.ruleX(points, Plot.pointerX({ x: "nines", stroke: INK, strokeOpacity: 0.3, py: "ms" })),
      Plot.tip([...dots, ...points], Plot.pointer({ x: "nines", y: "ms", title: tip, ...TIP })),
    ],
  }) as SVGSVGElement;
}

function tip(p: Dot | CurvePoint): string {
  if ("name" in p) return `${p.mesh}, ${p.name}\ntypical run ${milliseconds(p.ms)}${p.spread ? `\n${SPREADS[p.spread]} ${milliseconds(p.low)} to ${milliseconds(p.high)}` : ""}`;
  const name = `p${percentile(Math.round(p.nines * 100) / 100)}`;
  const support = p.supported ? "" : "\ntoo few responses";
  return `${p.mesh}, ${name}\npooled ${milliseconds(p.ms)}\ntrials ${milliseconds(p.low)} to ${milliseconds(p.high)}${support}`;
}

/** Names at the ends of the lines, without overlap. */
function labels(summary: Summary, points: CurvePoint[], y: [number, number]): Plot.Markish[] {
  const ends = meshes(summary).flatMap((mesh) => points.filter((p) => p.mesh === mesh).slice(-1));
  const inner = HEIGHT - MARGIN.top - MARGIN.bottom;
  const [low, high] = [Math.log(y[0]), Math.log(y[1])];
  const toPixel = (ms: number): number => ((high - Math.log(ms)) / (high - low)) * inner;
  const end = Math.max(...ends.map((p) => p.nines));
  const placed = spreadLabels(ends.map((p) => toPixel(p.ms)), 15, 4, inner - 4);
  return ends.map((p, i) =>
    Plot.text([p], {
      x: () => end,
      y: () => Math.exp(high - ((placed[i] ?? 0) / inner) * (high - low)),
      text: () => short(p.mesh, meshes(summary)),
      textAnchor: "start",
      dx: 7,
      fill: colour(summary, p.mesh),
      fontWeight: 600,
    }),
  );
}
