// Latency and CPU by rate: one point per load.
import * as Plot from "@observablehq/plot";
import { meshes } from "../data";
import type { Chart } from "../figure";
import type { Cell, QuantileSpread, Summary } from "../summary";
import { BASE, colour, GRID, INK, TIP } from "../theme";
import type { View } from "../view";
import { milliseconds, short, significant, SPREADS } from "../words";
import { logDomain, logTicks, spreadLabels, tickWords } from "./layout";

interface Point {
  mesh: string;
  rps: number;
  value: number;
  low: number | null;
  high: number | null;
  spread: QuantileSpread | null;
}

interface Curve {
  title: string;
  file: string;
  label: string;
  log: boolean;
  of: (cell: Cell) => Pick<Point, "value" | "low" | "high" | "spread"> | null;
  words: (value: number) => string;
}

function latency(name: string): Curve["of"] {
  return (cell) => {
    const q = cell.latency.find((l) => l.name === name && l.supported);
    const ms = (ns: number | null): number | null => (ns === null ? null : ns / 1e6);
    return q ? { value: q.value_ns / 1e6, low: ms(q.low_ns), high: ms(q.high_ns), spread: q.spread } : null;
  };
}

const CURVES: Curve[] = [
  { title: "Median latency", file: "p50", label: "milliseconds", log: true, of: latency("p50"), words: milliseconds },
  { title: "99th percentile", file: "p99", label: "milliseconds", log: true, of: latency("p99"), words: milliseconds },
  {
    title: "CPU of the data plane", file: "cpu", label: "cores", log: false,
    of: (cell) => {
      const e = cell.planes.data_plane?.cpu_cores;
      return e ? { value: e.value, low: e.low, high: e.high, spread: e.low === null ? null : "interval" } : null;
    },
    words: (v) => `${significant(v)} cores`,
  },
];

export function scalingCharts({ summary }: View): Chart[] {
  return CURVES.flatMap((curve) => {
    const points = summary.cells.flatMap((cell): Point[] => {
      const found = curve.of(cell);
      return found ? [{ mesh: cell.mesh, rps: cell.achieved_rps ?? cell.rate_rps, ...found }] : [];
    });
    if (new Set(points.map((p) => p.rps)).size < 2) return [];
    points.sort((a, b) => a.rps - b.rps);
    return [{
      title: curve.title,
      description: `${curve.title}${curve.log ? " of the typical run" : ""} by requests per second. ${points.map((p) => `${p.mesh} at ${significant(p.rps)}: ${curve.words(p.value)}`).join("; ")}`,
      file: `tare-scaling-${curve.file}`,
      rows: points,
      draw: (width: number) => draw(summary, curve, points, width),
    }];
  });
}

const HEIGHT = 280;
const MARGIN = { top: 22, right: 110, bottom: 44, left: 52 };

function draw(summary: Summary, curve: Curve, points: Point[], width: number): SVGSVGElement {
  const ends = points.flatMap((p) => [p.value, p.low ?? p.value, p.high ?? p.value]);
  const y: [number, number] = curve.log ? logDomain(ends) : [0, Math.max(...ends) * 1.05];
  const stroke = (p: Point): string => colour(summary, p.mesh);
  const last = meshes(summary).flatMap((mesh) => points.filter((p) => p.mesh === mesh).slice(-1));
  // A few pixels apart, so that the bars of several meshes do not overlap.
  const apart = Math.min(4, 16 / last.length);
  const curves = last.map(({ mesh }, i) => ({ here: points.filter((p) => p.mesh === mesh), dx: apart * (i - (last.length - 1) / 2) }));
  const inner = HEIGHT - MARGIN.top - MARGIN.bottom;
  const to = (v: number): number => (curve.log ? Math.log(v) : v);
  const span = to(y[1]) - to(y[0]);
  const placed = spreadLabels(last.map((p) => ((to(y[1]) - to(p.value)) / span) * inner), 15, 4, inner);
  const back = (pixel: number): number => {
    const v = to(y[1]) - (pixel / inner) * span;
    return curve.log ? Math.exp(v) : v;
  };
  const ticks = curve.log ? logTicks(y) : undefined;
  return Plot.plot({
    ...BASE,
    width, height: HEIGHT,
    marginTop: MARGIN.top, marginRight: MARGIN.right, marginBottom: MARGIN.bottom, marginLeft: MARGIN.left,
    x: { domain: [0, Math.max(...points.map((p) => p.rps))], label: "requests per second →", labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 120)) },
    y: { type: curve.log ? "log" : "linear", domain: y, label: null, tickSize: 0 },
    marks: [
      ticks ? Plot.gridY(ticks, { stroke: GRID, strokeOpacity: 1 }) : Plot.gridY({ stroke: GRID, strokeOpacity: 1 }),
      ticks
        ? Plot.axisY(ticks, { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: `↑ ${curve.label}` })
        : Plot.axisY({ tickSize: 0, label: `↑ ${curve.label}`, ticks: 5 }),
      ...curves.flatMap(({ here, dx }) => [
        Plot.line(here, { x: "rps", y: "value", stroke, strokeWidth: 2, z: "mesh", dx }),
        Plot.link(here.filter((p) => p.low !== null && p.high !== null), { x1: "rps", x2: "rps", y1: (p: Point) => Math.max(p.low ?? 0, y[0]), y2: "high", stroke, strokeWidth: 2, dx }),
        Plot.dot(here, { x: "rps", y: "value", fill: stroke, r: 4, dx }),
      ]),
      ...last.map((p, i) => Plot.text([p], {
        x: () => Math.max(...last.map((l) => l.rps)), y: () => back(placed[i] ?? 0), text: () => short(p.mesh, meshes(summary)), textAnchor: "start", dx: 14, fill: stroke(p), fontWeight: 600,
      })),
      curve.log ? null : Plot.ruleY([0], { stroke: INK }),
      Plot.tip(points, Plot.pointer({
        x: "rps", y: "value", ...TIP,
        title: (p: Point) => `${p.mesh}, ${significant(p.rps)} rps\n${curve.words(p.value)}${p.low === null || p.high === null || !p.spread ? "" : `\n${SPREADS[p.spread]} ${curve.words(p.low)} to ${curve.words(p.high)}`}`,
      })),
    ],
  }) as SVGSVGElement;
}
