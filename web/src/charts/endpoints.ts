// Each endpoint's median and 99th percentile, the slowest first.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import { type Chart, fileName } from "../figure";
import type { Cell, Load, Summary } from "../summary";
import { BASE, colour, GRID, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds } from "../words";
import { logDomain, logTicks, tickWords } from "./layout";

interface Row {
  endpoint: string;
  mesh: string;
  p50: number;
  p99: number | null;
  requests: number;
}

/** Most endpoints in a chart. The table has all. */
const MOST = 12;

export function endpointCharts({ summary }: View): Chart[] {
  return summary.setup.loads.flatMap((load) => {
    const rows = cellsOf(summary, load).flatMap(rowsOf);
    return rows.length > 0 ? [one(summary, load, rows)] : [];
  });
}

function rowsOf(cell: Cell): Row[] {
  return cell.endpoints.flatMap((e): Row[] => {
    const at = (name: string): number | null => {
      const q = e.latency.find((l) => l.name === name && l.supported);
      return q && q.value_ns !== null ? q.value_ns / 1e6 : null;
    };
    const p50 = at("p50");
    return p50 === null ? [] : [{ endpoint: e.name, mesh: cell.mesh, p50, p99: at("p99"), requests: e.counts.planned }];
  });
}

function one(summary: Summary, load: Load, rows: Row[]): Chart {
  const worst = new Map<string, number>();
  for (const r of rows) worst.set(r.endpoint, Math.max(worst.get(r.endpoint) ?? 0, r.p99 ?? r.p50));
  const order = [...worst].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = order.slice(0, MOST);
  const more = order.length > MOST ? `, the ${MOST} slowest of ${order.length}` : "";
  const words = rows.filter((r) => shown.includes(r.endpoint)).map((r) =>
    `${r.endpoint}, ${r.mesh}: median ${milliseconds(r.p50)}${r.p99 === null ? "" : `, p99 ${milliseconds(r.p99)}`}`);
  return {
    title: `${loadWords(load)}${more}`,
    description: words.join("; "),
    file: `tare-endpoints-${fileName(load.name)}`,
    rows,
    draw: (width) => draw(summary, rows.filter((r) => shown.includes(r.endpoint)), shown, width),
  };
}

function draw(summary: Summary, rows: Row[], order: string[], width: number): SVGSVGElement {
  const names = meshes(summary).filter((m) => rows.some((r) => r.mesh === m));
  const stroke = (r: Row): string => colour(summary, r.mesh);
  const x = logDomain(rows.flatMap((r) => [r.p50, r.p99 ?? r.p50]));
  const ticks = logTicks(x);
  const label = (name: string): string => (name.length > 22 ? `${name.slice(0, 21)}…` : name);
  const left = 16 + 6.6 * Math.max(6, ...order.map((o) => label(o).length));
  const each = names.length * 11 + 10;
  return Plot.plot({
    ...BASE,
    width, height: 62 + order.length * each,
    marginLeft: left, marginRight: 16, marginTop: 8, marginBottom: 44,
    x: { type: "log", domain: x, label: null },
    y: { domain: names, axis: null, padding: 0.1 },
    fy: { domain: order, label: null, axis: "left", tickFormat: label, tickSize: 0, padding: 0.25 },
    marks: [
      Plot.gridX(ticks, { stroke: GRID, strokeOpacity: 1 }),
      Plot.axisX(ticks, { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: "milliseconds →", labelAnchor: "right" }),
      Plot.link(rows.filter((r) => r.p99 !== null), { x1: "p50", x2: "p99", y1: "mesh", y2: "mesh", fy: "endpoint", stroke, strokeWidth: 2, strokeOpacity: 0.55 }),
      Plot.dot(rows, { x: "p50", y: "mesh", fy: "endpoint", r: 4, fill: stroke }),
      Plot.tickX(rows.filter((r) => r.p99 !== null), { x: "p99", y: "mesh", fy: "endpoint", stroke, strokeWidth: 2 }),
      Plot.tip(rows, Plot.pointer({
        x: "p50", y: "mesh", fy: "endpoint", ...TIP,
        title: (r: Row) => `${r.endpoint}\n${r.mesh}\nmedian ${milliseconds(r.p50)}${r.p99 === null ? "" : `\np99 ${milliseconds(r.p99)}`}`,
      })),
    ],
  }) as SVGSVGElement;
}
