// The factors of a sweep: each figure over the levels, with intervals and the fitted line of each mesh.
import * as Plot from "@observablehq/plot";
import { meshes } from "../data";
import { type Chart, fileName } from "../figure";
import type { FactorSummary, Fit, Slice, Summary, SweepLine } from "../summary";
import { BASE, colour, GRID, INK, TIP } from "../theme";
import type { View } from "../view";
import { milliseconds, short, significant } from "../words";
import { spreadLabels } from "./layout";

interface Figure {
  what: string;
  title: string;
  label: string;
  /** The unit of the figure in that of the axis. */
  scale: number;
}

const FIGURES: Figure[] = [
  { what: "cpu", title: "CPU time per request", label: "microseconds", scale: 1e3 },
  { what: "latency", title: "Mean latency", label: "milliseconds", scale: 1e6 },
  { what: "p99", title: "99th percentile", label: "milliseconds", scale: 1e6 },
  { what: "memory", title: "Memory of the proxies", label: "MiB", scale: 1024 * 1024 },
  { what: "convergence", title: "Time until a change has arrived everywhere", label: "seconds", scale: 1e9 },
  { what: "pod_ready", title: "Time until a pod is ready", label: "seconds", scale: 1e9 },
  { what: "control_cpu", title: "CPU of the control plane", label: "cores", scale: 1 },
  { what: "control_memory", title: "Memory of the control plane", label: "MiB", scale: 1024 * 1024 },
];

/** A mesh at a level, in the unit of the axis. */
interface Point {
  mesh: string;
  level: string;
  x: number | string;
  value: number;
  low: number | null;
  high: number | null;
}

/** The figures of the first screen. */
const FIRST = 2;

/** The charts of all factors, but for those of the first screen. */
export function sweepCharts({ summary }: View): Chart[] {
  const factors = summary.sweep?.factors ?? [];
  return factors.flatMap((factor, f) => factor.slices.flatMap((slice, s) =>
    FIGURES.slice(f === 0 && s === 0 ? FIRST : 0).flatMap((figure) => one(summary, factor, slice, figure))));
}

/** The charts of the first screen: CPU and mean latency of the first factor. */
export function firstSweepCharts({ summary }: View): Chart[] {
  const factor = summary.sweep?.factors[0];
  const slice = factor?.slices[0];
  if (!factor || !slice) return [];
  return FIGURES.slice(0, FIRST).flatMap((figure) => one(summary, factor, slice, figure));
}

function one(summary: Summary, factor: FactorSummary, slice: Slice, figure: Figure): Chart[] {
  const points = slice.lines.flatMap((line) => pointsOf(line, figure));
  if (points.length === 0) return [];
  const at = slice.at === "" ? "" : `, ${slice.at}`;
  const title = `${figure.title} by ${factor.title}${at}`;
  const words = points.map((p) => `${p.mesh} at ${p.level}: ${pointWords(p, figure)}`);
  const fits = slice.lines.flatMap((line) => line.fits.filter((f) => f.what === figure.what).map((fit) => ({ mesh: line.mesh, fit })));
  const curved = fits.filter(({ fit }) => fit.curved).map(({ mesh }) => mesh);
  const note = fits.map(({ mesh, fit }) => `${mesh}: ${slopeWords(fit, factor.unit)}`);
  const open = fits.filter(({ fit }) => !fit.curved && !isSure(fit)).map(({ mesh }) => mesh);
  if (open.length > 0) note.push(`dashed: the slope is not resolved (${open.join(", ")})`);
  if (curved.length > 0) note.push(`dashed: not on a straight line (${curved.join(", ")})`);
  return [{
    title,
    description: `${title}. ${words.join("; ")}`,
    note: note.length > 0 ? `${note.join("; ")}.` : "",
    file: `tare-sweep-${factor.kind}-${figure.what}${slice.at === "" ? "" : `-${fileName(slice.at)}`}`,
    rows: points,
    draw: (width: number) => draw(summary, factor, slice, figure, points, width),
  }];
}

function pointsOf(line: SweepLine, figure: Figure): Point[] {
  return line.points.flatMap((point): Point[] => {
    const found = point.figures.find((f) => f.what === figure.what);
    if (!found) return [];
    const { value, low, high } = found.estimate;
    const of = (v: number | null): number | null => (v === null ? null : v / figure.scale);
    return [{ mesh: line.mesh, level: point.level, x: point.value ?? point.level, value: value / figure.scale, low: of(low), high: of(high) }];
  });
}

function pointWords(p: Point, figure: Figure): string {
  const interval = p.low === null || p.high === null ? "" : ` (${significant(p.low)} to ${significant(p.high)})`;
  return `${significant(p.value)} ${figure.label}${interval}`;
}

/** `+3.10 µs (2.80 µs to 3.40 µs) per KiB`. */
function slopeWords(fit: Fit, unit: string): string {
  const { value, low, high } = fit.slope;
  const of = (v: number): string => (fit.unit === "bytes" ? `${significant(v / 1024)} KiB` : milliseconds(v / 1e6));
  const interval = low === null || high === null ? "" : ` (${of(low)} to ${of(high)})`;
  return `${value > 0 ? "+" : ""}${of(value)}${interval} per ${unit}`;
}

/** Whether the levels are on a line whose slope is not 0. */
function isSure({ curved, slope }: Fit): boolean {
  return !curved && slope.low !== null && slope.high !== null && slope.low * slope.high > 0;
}

const HEIGHT = 270;
const MARGIN = { top: 22, right: 104, bottom: 44, left: 54 };

function draw(summary: Summary, factor: FactorSummary, slice: Slice, figure: Figure, points: Point[], width: number): SVGSVGElement {
  const linear = points.every((p) => typeof p.x === "number");
  const top = Math.max(...points.map((p) => Math.max(p.value, Math.min(p.high ?? p.value, 3 * p.value)))) * 1.05;
  const stroke = (mesh: string): string => colour(summary, mesh);
  const lines = slice.lines.filter((line) => points.some((p) => p.mesh === line.mesh));
  const apart = Math.min(4, 16 / lines.length);
  const curves = lines.map((line, i) => ({
    mesh: line.mesh,
    here: points.filter((p) => p.mesh === line.mesh),
    fit: linear ? line.fits.find((f) => f.what === figure.what) : undefined,
    dx: apart * (i - (lines.length - 1) / 2),
  }));
  const numbers = points.flatMap((p) => (typeof p.x === "number" ? [p.x] : []));
  const [from, to] = [Math.min(0, ...numbers), Math.max(...numbers)];
  const labels = factor.levels.map((l) => l.label);
  const end = linear ? to : (labels[labels.length - 1] ?? "");
  const inner = HEIGHT - MARGIN.top - MARGIN.bottom;
  const last = curves.map((c) => c.here[c.here.length - 1]?.value ?? 0);
  const placed = spreadLabels(last.map((v) => (1 - v / top) * inner), 15, 4, inner);
  return Plot.plot({
    ...BASE,
    width, height: HEIGHT,
    marginTop: MARGIN.top, marginRight: MARGIN.right, marginBottom: MARGIN.bottom, marginLeft: MARGIN.left,
    x: linear
      ? { domain: [from, to], label: `${axisWords(factor)} →`, labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 120)) }
      : { type: "point", domain: labels, label: `${factor.title} →`, labelAnchor: "right", tickSize: 0, padding: 0.3 },
    y: { domain: [0, top], label: null, tickSize: 0 },
    marks: [
      Plot.gridY({ stroke: GRID, strokeOpacity: 1 }),
      Plot.axisY({ tickSize: 0, label: `↑ ${figure.label}`, ticks: 5 }),
      ...curves.flatMap(({ mesh, here, fit, dx }) => [
        fit
          ? Plot.line([from, to].map((x) => ({ x, y: Math.max(0, (fit.intercept.value + fit.slope.value * x) / figure.scale) })), {
              x: "x", y: "y", stroke: stroke(mesh), strokeWidth: 1.75, strokeDasharray: isSure(fit) ? "" : "5 4", clip: true,
            })
          : Plot.line(here, { x: "x", y: "value", stroke: stroke(mesh), strokeWidth: 1.75, dx }),
        Plot.link(here.filter((p) => p.low !== null && p.high !== null), {
          x1: "x", x2: "x", y1: (p: Point) => Math.max(0, p.low ?? 0), y2: (p: Point) => Math.min(top, p.high ?? 0), stroke: stroke(mesh), strokeWidth: 2, dx,
        }),
        Plot.dot(here, { x: "x", y: "value", fill: stroke(mesh), r: 4, dx }),
      ]),
      ...curves.map(({ mesh }, i) => Plot.text([mesh], {
        x: () => end, y: () => (1 - (placed[i] ?? 0) / inner) * top, text: () => short(mesh, meshes(summary)), textAnchor: "start", dx: 14, fill: stroke(mesh), fontWeight: 600,
      })),
      Plot.ruleY([0], { stroke: INK }),
      Plot.tip(points, Plot.pointer({ x: "x", y: "value", ...TIP, title: (p: Point) => `${p.mesh}, ${p.level}\n${pointWords(p, figure)}` })),
    ],
  }) as SVGSVGElement;
}

/** The factor with the unit of the axis: `response size, KiB`. */
function axisWords(factor: FactorSummary): string {
  const counted = ["service", "instance", "connection", "thread", "call", "endpoint", "change per second"];
  if (factor.unit === "new connection per request") return "new connections per request";
  return counted.includes(factor.unit) ? factor.title : `${factor.title}, ${factor.unit}`;
}
