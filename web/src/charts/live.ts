// The seconds of the current trial.
import * as Plot from "@observablehq/plot";
import type { Chart } from "../figure";
import type { Summary } from "../summary";
import { BASE, colour, GRID, INK } from "../theme";
import { milliseconds, significant } from "../words";
import { logDomain, logTicks, tickWords } from "./layout";

/** One second; negative during the warm-up. Latency is that of the window so far; null without a response. */
export interface Moment {
  second: number;
  rps: number;
  p50_ms: number | null;
  p99_ms: number | null;
  errors: number;
  cores: number | null;
}

const FRAME = { ...BASE, height: 200, marginLeft: 54, marginRight: 44, marginTop: 22, marginBottom: 40 };

/** `median 1.20 ms, p99 3.40 ms`; a dash without a response. */
export function latencySoFar({ p50_ms, p99_ms }: Moment): string {
  const [p50, p99] = [p50_ms, p99_ms].map((ms) => (ms === null ? "-" : milliseconds(ms)));
  return `median ${p50}, p99 ${p99}`;
}

export function liveCharts(summary: Summary, mesh: string, moments: Moment[]): Chart[] {
  if (moments.length === 0) return [];
  const ink = colour(summary, mesh);
  const last = moments.slice(-1);
  const load = Math.max(1, ...summary.setup.loads.map((l) => l.duration_ns / 1e9));
  const x: Plot.ScaleOptions = { domain: [Math.min(0, ...moments.map((m) => m.second)), Math.max(load, ...moments.map((m) => m.second))], label: "seconds →", labelAnchor: "right", tickSize: 0 };
  const latencies = moments.flatMap(({ second, p50_ms, p99_ms }) => (p50_ms === null || p99_ms === null ? [] : [{ second, p50_ms, p99_ms }]));
  const charts: Chart[] = [];
  if (latencies.length > 0) {
    const y = logDomain(latencies.flatMap((m) => [m.p50_ms, m.p99_ms]), 1.3);
    charts.push({
      title: "Latency so far",
      description: last.map(latencySoFar).join(),
      file: "tare-live-latency",
      rows: moments,
      draw: (width) =>
        Plot.plot({
          ...FRAME, width, x,
          y: { type: "log", domain: y, label: null },
          marks: [
            Plot.gridY(logTicks(y), { stroke: GRID, strokeOpacity: 1 }),
            Plot.axisY(logTicks(y), { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: "↑ ms" }),
            ...(["p50_ms", "p99_ms"] as const).flatMap((key) => [
              Plot.line(latencies, { x: "second", y: key, stroke: ink, strokeWidth: 2, strokeDasharray: key === "p50_ms" ? "" : "4 3" }),
              Plot.text(latencies.slice(-1), { x: "second", y: key, text: () => key.slice(0, 3), textAnchor: "start", dx: 6, fill: ink, fontWeight: 600 }),
            ]),
          ],
        }) as SVGSVGElement,
    });
  }
  charts.push(line("Rate", "requests per second", moments.map((m) => ({ second: m.second, value: m.rps })), ink, x));
  const cores = moments.flatMap((m) => (m.cores === null ? [] : [{ second: m.second, value: m.cores }]));
  if (cores.length > 0) charts.push(line("CPU of the data plane", "cores", cores, ink, x));
  return charts;
}

function line(title: string, unit: string, rows: { second: number; value: number }[], ink: string, x: Plot.ScaleOptions): Chart {
  const most = Math.max(...rows.map((r) => r.value)) * 1.1 || 1;
  return {
    title,
    description: `${significant(rows.at(-1)?.value ?? 0)} ${unit} in the last second`,
    file: `tare-live-${title.toLowerCase().replaceAll(" ", "-")}`,
    rows,
    draw: (width) =>
      Plot.plot({
        ...FRAME, width, x,
        y: { domain: [0, most], label: `↑ ${unit}`, tickSize: 0, ticks: 4 },
        marks: [
          Plot.gridY({ stroke: GRID, strokeOpacity: 1, ticks: 4 }),
          Plot.line(rows, { x: "second", y: "value", stroke: ink, strokeWidth: 2 }),
          Plot.dot(rows, { x: "second", y: "value", fill: ink, r: 2.5 }),
          Plot.ruleY([0], { stroke: INK }),
        ],
      }) as SVGSVGElement,
  };
}
