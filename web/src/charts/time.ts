// One trial over time: latency, rate, CPU and memory.
import * as Plot from "@observablehq/plot";
import { bucketMs } from "../buckets";
import type { Column, TrialSeries } from "../details";
import type { Chart } from "../figure";
import { type Panel, select } from "../panel";
import type { Summary, TrialRow } from "../summary";
import { BAD, BASE, colour, GRID, INK, QUIET, TIP } from "../theme";
import { seriesOf, trialWords, type View } from "../view";
import { milliseconds, significant } from "../words";
import { logDomain, logTicks, tickWords } from "./layout";

let shown: number | null = null;

/** Selects the trial that is drawn. Returns false if the page has no data for it. */
export function showTrial(view: View, index: number): boolean {
  if (!seriesOf(view, index)) return false;
  shown = index;
  return true;
}

/** The trials with data, and the selected one. */
function chosen(view: View): { trials: TrialRow[]; now: TrialRow | undefined } {
  const trials = view.summary.trials.filter((t) => seriesOf(view, t.index));
  // Default: a used trial of the last mesh under the load of the answers.
  const last = view.summary.answers.at(-1);
  const now =
    trials.find((t) => t.index === shown) ??
    trials.find((t) => t.status === "used" && t.mesh === last?.mesh && t.load === last.load) ??
    trials[0];
  return { trials, now };
}

export const time: Panel = {
  controls: (view, redraw) => {
    const { trials, now } = chosen(view);
    const options = trials.map((t) => ({ value: String(t.index), words: trialWords(t) }));
    return [
      select("Trial", options, String(now?.index), (value) => {
        shown = Number(value);
        redraw();
      }),
    ];
  },
  charts: (view) => {
    const { now } = chosen(view);
    const series = now && seriesOf(view, now.index);
    return now && series ? charts(view.summary, now, series) : [];
  },
};

interface Span extends Column {
  from: number;
  to: number;
}

function charts(summary: Summary, trial: TrialRow, series: TrialSeries): Chart[] {
  const spans = series.columns.map((c, i) => ({ ...c, from: i * series.step_s, to: (i + 1) * series.step_s }));
  const ink = colour(summary, trial.mesh);
  const file = `tare-trial-${trial.index}`;
  const all: Chart[] = [];
  if (spans.some((s) => s.ok > 0)) all.push(heat(spans, ink, trial, file));
  if (spans.length > 0) all.push(rate(spans, series.step_s, ink, trial, file));
  all.push(...use(series, ink, trial, file));
  return all;
}

const FRAME = { ...BASE, marginLeft: 54, marginRight: 18, marginTop: 22, marginBottom: 42, height: 250 };
const seconds = (to: number): Plot.ScaleOptions => ({ domain: [0, to], label: "seconds →", labelAnchor: "right", tickSize: 0 });

/** `median 1.20 ms, p99 3.40 ms`; a dash without a response. */
function latencyOf(span: Span): string {
  const words = (ns: number): string => (span.ok > 0 ? milliseconds(ns / 1e6) : "-");
  return `median ${words(span.p50_ns)}, p99 ${words(span.p99_ns)}`;
}

/** Responses by time and latency. */
function heat(spans: Span[], ink: string, trial: TrialRow, file: string): Chart {
  const cells = spans.flatMap((s) =>
    s.buckets.map(([bucket, count]) => ({ from_s: s.from, to_s: s.to, low_ms: bucketMs(bucket), high_ms: bucketMs(bucket + 1), count })),
  );
  const most = Math.max(...cells.map((c) => c.count));
  const y = logDomain(cells.flatMap((c) => [c.low_ms, c.high_ms]), 1);
  const end = spans.at(-1)?.to ?? 1;
  const lines = (["p50_ns", "p99_ns"] as const).map((key) =>
    Plot.line(spans.filter((s) => s.ok > 0), { x: (s: Span) => (s.from + s.to) / 2, y: (s: Span) => s[key] / 1e6, stroke: INK, strokeWidth: 1.75, strokeDasharray: key === "p50_ns" ? "" : "4 3" }));
  const last = spans.filter((s) => s.ok > 0).slice(-1);
  return {
    title: "Latency: counts, median and p99",
    description: `Heat map of trial ${trialWords(trial)}. ${spans.map((s) => `second ${s.from}: ${latencyOf(s)}`).join("; ")}`,
    file: `${file}-heat`,
    rows: cells,
    draw: (width) =>
      Plot.plot({
        ...FRAME, width, height: 320, marginRight: 44,
        x: seconds(end),
        y: { type: "log", domain: y, label: null },
        marks: [
          Plot.gridY(logTicks(y), { stroke: GRID, strokeOpacity: 1 }),
          Plot.axisY(logTicks(y), { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: "↑ latency, ms" }),
          Plot.rect(cells, { x1: "from_s", x2: "to_s", y1: "low_ms", y2: "high_ms", fill: ink, fillOpacity: (c: { count: number }) => 0.1 + 0.9 * Math.sqrt(c.count / most), insetRight: 1, insetTop: 0.5 }),
          ...lines,
          Plot.text(last, { x: (s: Span) => s.to, y: (s: Span) => s.p50_ns / 1e6, text: () => "p50", textAnchor: "start", dx: 5 }),
          Plot.text(last, { x: (s: Span) => s.to, y: (s: Span) => s.p99_ns / 1e6, text: () => "p99", textAnchor: "start", dx: 5 }),
          Plot.tip(spans, Plot.pointerX({
            x: (s: Span) => (s.from + s.to) / 2, y: (s: Span) => Math.max(s.p50_ns / 1e6, y[0]), ...TIP,
            title: (s: Span) => `second ${s.from}\n${s.ok} responses\n${latencyOf(s).replace(", ", "\n")}`,
          })),
        ],
      }) as SVGSVGElement,
  };
}

function rate(spans: Span[], step: number, ink: string, trial: TrialRow, file: string): Chart {
  const per = (n: number): number => n / step;
  const rows = spans.map((s) => ({ from_s: s.from, to_s: s.to, planned_rps: per(s.planned), sent_rps: per(s.sent), ok_rps: per(s.ok), failed_rps: per(s.failed) }));
  type Row = (typeof rows)[number];
  const most = Math.max(...rows.flatMap((r) => [r.planned_rps, r.sent_rps, r.ok_rps]));
  const failed = rows.filter((r) => r.failed_rps > 0);
  return {
    title: "Rate: planned (line), answered (filled)",
    description: `Requests per second of trial ${trialWords(trial)}. ${rows.map((r) => `second ${r.from_s}: ${significant(r.ok_rps)} of ${significant(r.planned_rps)}${r.failed_rps > 0 ? `, ${significant(r.failed_rps)} failed` : ""}`).join("; ")}`,
    file: `${file}-rate`,
    rows,
    draw: (width) =>
      Plot.plot({
        ...FRAME, width,
        x: seconds(rows.at(-1)?.to_s ?? 1),
        y: { domain: [0, most * 1.08], label: "↑ requests per second", tickSize: 0, ticks: 4 },
        marks: [
          Plot.gridY({ stroke: GRID, strokeOpacity: 1, ticks: 4 }),
          Plot.rect(rows, { x1: "from_s", x2: "to_s", y1: () => 0, y2: "ok_rps", fill: ink, fillOpacity: 0.7, insetRight: 1 }),
          Plot.rect(failed, { x1: "from_s", x2: "to_s", y1: "ok_rps", y2: (r: Row) => r.ok_rps + r.failed_rps, fill: BAD, insetRight: 1 }),
          Plot.link(rows, { x1: "from_s", x2: "to_s", y1: "planned_rps", y2: "planned_rps", stroke: INK, strokeWidth: 1.75 }),
          Plot.ruleY([0], { stroke: INK }),
          Plot.tip(rows, Plot.pointerX({
            x: (r: Row) => (r.from_s + r.to_s) / 2, y: "ok_rps", ...TIP,
            title: (r: Row) => `second ${r.from_s}\nplanned ${significant(r.planned_rps)} rps\nsent ${significant(r.sent_rps)}\nanswered ${significant(r.ok_rps)}\nfailed ${significant(r.failed_rps)}`,
          })),
        ],
      }) as SVGSVGElement,
  };
}

const PLANES: [string, string][] = [
  ["data_plane", "data plane"], ["control_plane", "control plane"], ["generator_proxy", "generator's proxy"],
  ["application", "application"], ["generator", "generator"],
];

/** CPU and memory by plane. */
function use(series: TrialSeries, ink: string, trial: TrialRow, file: string): Chart[] {
  const kinds: [string, string, TrialSeries["cpu_cores"]][] = [["CPU", "cores", series.cpu_cores], ["Resident memory", "MiB", series.memory_mib]];
  return kinds.flatMap(([title, unit, planes]) => {
    const rows = PLANES.flatMap(([key, plane]) =>
      (planes[key] ?? []).map((value, i) => ({ plane, second: series.sampled_s[i] ?? 0, value })));
    if (rows.length === 0) return [];
    const last = PLANES.flatMap(([, plane]) => rows.filter((r) => r.plane === plane).slice(-1));
    return [{
      title: `${title} by plane`,
      description: `${title} of trial ${trialWords(trial)} at its end: ${last.map((r) => `${r.plane} ${significant(r.value)} ${unit}`).join("; ")}`,
      file: `${file}-${unit === "cores" ? "cpu" : "memory"}`,
      rows,
      draw: (width: number) => planesOverTime(rows, last, unit, ink, width),
    }];
  });
}

interface Sample {
  plane: string;
  second: number;
  value: number;
}

function planesOverTime(rows: Sample[], last: Sample[], unit: string, ink: string, width: number): SVGSVGElement {
  const own = (r: Sample): boolean => r.plane === "data plane" || r.plane === "control plane";
  const stroke = (r: Sample): string => (own(r) ? ink : QUIET);
  const most = Math.max(...rows.map((r) => r.value)) * 1.08;
  const top = 22;
  const inner = FRAME.height - top - FRAME.marginBottom;
  const order = [...last].sort((a, b) => b.value - a.value);
  let floor = -15;
  return Plot.plot({
    ...FRAME, width, marginRight: 112,
    x: seconds(Math.max(...rows.map((r) => r.second))),
    y: { domain: [0, most], label: `↑ ${unit}`, tickSize: 0, ticks: 4 },
    marks: [
      Plot.gridY({ stroke: GRID, strokeOpacity: 1, ticks: 4 }),
      Plot.line(rows.filter(own), { x: "second", y: "value", z: "plane", stroke, strokeWidth: 2.25 }),
      Plot.line(rows.filter((r) => !own(r)), { x: "second", y: "value", z: "plane", stroke, strokeWidth: 1.5, strokeDasharray: "3 2" }),
      ...PLANES.flatMap(([, plane]) => {
        const here = rows.filter((r) => r.plane === plane);
        return here.length > 0 ? [Plot.dot(here, { x: "second", y: "value", fill: stroke, r: 2.2 })] : [];
      }),
      ...order.map((r) => {
        floor = Math.max((1 - r.value / most) * inner, floor + 15);
        const at = floor;
        return Plot.text([r], { x: "second", y: () => (1 - at / inner) * most, text: "plane", textAnchor: "start", dx: 8, fill: stroke(r), fontWeight: own(r) ? 600 : 400 });
      }),
      Plot.ruleY([0], { stroke: INK }),
      Plot.tip(rows, Plot.pointer({ x: "second", y: "value", title: (r: Sample) => `${r.plane}\n${significant(r.value)} ${unit}`, ...TIP })),
    ],
  }) as SVGSVGElement;
}
