// The generator's own delay compared with the latency.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes } from "../data";
import { type Chart, fileName } from "../figure";
import type { Load, Summary } from "../summary";
import { BASE, colour, GRID, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds, short } from "../words";
import { logDomain, logTicks, tickWords } from "./layout";

interface Row {
  mesh: string;
  lateness_p50_ms: number;
  lateness_p99_ms: number;
  latency_p50_ms: number;
}

export function latenessCharts({ summary }: View): Chart[] {
  return summary.setup.loads.flatMap((load) => {
    const rows = cellsOf(summary, load).flatMap((cell): Row[] => {
      const at = (list: { name: string; value_ns: number | null }[], name: string): number | undefined => {
        const ns = list.find((l) => l.name === name)?.value_ns ?? null;
        return ns === null ? undefined : Math.max(ns, 1) / 1e6;
      };
      const [p50, p99, latency] = [at(cell.lateness, "p50"), at(cell.lateness, "p99"), at(cell.latency, "p50")];
      if (p50 === undefined || p99 === undefined || latency === undefined) return [];
      return [{ mesh: cell.mesh, lateness_p50_ms: p50, lateness_p99_ms: p99, latency_p50_ms: latency }];
    });
    return rows.length > 0 ? [one(summary, load, rows)] : [];
  });
}

function words(r: Row): string {
  return `lateness ${milliseconds(r.lateness_p50_ms)} (median), ${milliseconds(r.lateness_p99_ms)} (p99), median latency of the typical run ${milliseconds(r.latency_p50_ms)}`;
}

function one(summary: Summary, load: Load, rows: Row[]): Chart {
  return {
    title: loadWords(load),
    description: rows.map((r) => `${r.mesh}: ${words(r)}`).join("; "),
    file: `tare-lateness-${fileName(load.name)}`,
    rows,
    draw: (width) => draw(summary, rows, width),
  };
}

function draw(summary: Summary, rows: Row[], width: number): SVGSVGElement {
  const names = meshes(summary).filter((m) => rows.some((r) => r.mesh === m));
  const x = logDomain(rows.flatMap((r) => [r.lateness_p50_ms, r.lateness_p99_ms, r.latency_p50_ms]), 1.6);
  const ticks = logTicks(x);
  const stroke = (r: Row): string => colour(summary, r.mesh);
  return Plot.plot({
    ...BASE,
    width, height: 54 + names.length * 26,
    marginLeft: 92, marginRight: 18, marginTop: 6, marginBottom: 44,
    x: { type: "log", domain: x, label: null },
    y: { domain: names, label: null, tickSize: 0, tickFormat: (n: string) => short(n, names) },
    marks: [
      Plot.gridX(ticks, { stroke: GRID, strokeOpacity: 1 }),
      Plot.axisX(ticks, { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: "milliseconds →", labelAnchor: "right" }),
      Plot.link(rows, { x1: "lateness_p50_ms", x2: "lateness_p99_ms", y1: "mesh", y2: "mesh", stroke, strokeWidth: 3 }),
      Plot.dot(rows, { x: "lateness_p50_ms", y: "mesh", r: 4, fill: stroke }),
      Plot.dot(rows, { x: "latency_p50_ms", y: "mesh", r: 5, symbol: "diamond", stroke, strokeWidth: 2 }),
      Plot.tip(rows, Plot.pointerY({ x: "latency_p50_ms", y: "mesh", title: (r: Row) => `${r.mesh}\n${words(r)}`, ...TIP })),
    ],
  }) as SVGSVGElement;
}
