// CPU and memory by plane: bars from zero, the interval as a whisker, each run as a dot.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes, type PlaneRow, planeRows } from "../data";
import type { Chart } from "../figure";
import type { Load, Summary } from "../summary";
import { colour, GRID, INK, PAPER, QUIET } from "../theme";
import { loadWords, short, significant } from "../words";

interface Kind {
  name: string;
  unit: string;
  rows: (summary: Summary, load: Load) => PlaneRow[];
}

const MIB = 1024 * 1024;
const CPU: Kind = {
  name: "cpu",
  unit: "cores",
  rows: (summary, load) => planeRows(cellsOf(summary, load), (p) => p.cpu_cores, 1),
};
const MEMORY: Kind = {
  name: "memory",
  unit: "MiB",
  rows: (summary, load) => planeRows(cellsOf(summary, load), (p) => p.memory_bytes, MIB),
};

export function cpuCharts(summary: Summary): Chart[] {
  return charts(summary, CPU);
}

export function memoryCharts(summary: Summary): Chart[] {
  return charts(summary, MEMORY);
}

function charts(summary: Summary, kind: Kind): Chart[] {
  const all = summary.setup.loads.flatMap((load) => kind.rows(summary, load));
  const most = Math.max(0, ...all.map((r) => Math.max(r.high ?? 0, r.value)));
  return summary.setup.loads.flatMap((load) => {
    const rows = kind.rows(summary, load);
    return rows.length > 0 ? [one(summary, load, kind, rows, most)] : [];
  });
}

function words(row: PlaneRow, unit: string): string {
  const whole = `${significant(row.value)} ${unit}`;
  return row.low === null || row.high === null
    ? whole
    : `${whole} (${significant(row.low)} to ${significant(row.high)})`;
}

function one(summary: Summary, load: Load, kind: Kind, rows: PlaneRow[], most: number): Chart {
  return {
    title: loadWords(load),
    description: rows.map((r) => `${r.mesh}, ${r.plane}: ${words(r, kind.unit)}`).join("; "),
    file: `tare-${kind.name}-${load.name.replace(/[^\w.-]/g, "-")}`,
    rows,
    draw: (width) => draw(summary, rows, kind.unit, most, width),
  };
}

function draw(summary: Summary, rows: PlaneRow[], unit: string, most: number, width: number): SVGSVGElement {
  const names = meshes(summary).filter((m) => rows.some((r) => r.mesh === m));
  const planes = [...new Set(rows.map((r) => r.plane))];
  const fill = (r: PlaneRow): string => colour(summary, r.mesh);
  const runs = rows.flatMap((r) => r.runs.map((value) => ({ mesh: r.mesh, plane: r.plane, value })));
  return Plot.plot({
    width,
    height: 58 + planes.length * (names.length * 22 + 30),
    marginLeft: 92,
    marginRight: 52,
    marginTop: 20,
    marginBottom: 40,
    style: { background: "transparent", color: INK, fontSize: "12px" },
    x: { domain: [0, most], nice: true, label: `${unit} →`, labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 110)) },
    y: { domain: names, label: null, tickSize: 0, padding: 0.25, tickFormat: short },
    fy: { domain: planes, label: null, axis: null, padding: 0.22 },
    marks: [
      Plot.gridX({ stroke: GRID, strokeOpacity: 1 }),
      Plot.text(planes, { fy: (p: string) => p, text: (p: string) => p, frameAnchor: "top-left", dy: -13, dx: -85, fontWeight: 600 }),
      Plot.barX(rows, { x: "value", y: "mesh", fy: "plane", fill, fillOpacity: 0.75, rx2: 2 }),
      Plot.link(rows.filter((r) => r.low !== null), { x1: "low", x2: "high", y1: "mesh", y2: "mesh", fy: "plane", stroke: INK, strokeWidth: 1.5 }),
      Plot.dot(runs, { x: "value", y: "mesh", fy: "plane", r: 2, fill: INK, fillOpacity: 0.55 }),
      Plot.text(rows, {
        x: (r: PlaneRow) => Math.max(r.high ?? r.value, r.value), y: "mesh", fy: "plane", text: (r: PlaneRow) => significant(r.value),
        textAnchor: "start", dx: 7, fill: QUIET,
      }),
      Plot.ruleX([0], { stroke: INK }),
      Plot.tip(rows, Plot.pointer({
        x: "value", y: "mesh", fy: "plane", title: (r: PlaneRow) => `${r.mesh}, ${r.plane}\n${words(r, unit)}`,
        fill: PAPER, stroke: GRID,
      })),
    ],
  }) as SVGSVGElement;
}
