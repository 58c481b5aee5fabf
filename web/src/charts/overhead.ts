// What each mesh adds at each percentile: a dot with its interval, on a scale that includes zero.
import * as Plot from "@observablehq/plot";
import { cellsOf, meshes, type OverheadRow, overheads } from "../data";
import { type Chart, fileName } from "../figure";
import type { Load, Summary } from "../summary";
import { BASE, colour, GRID, INK, PAPER, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, milliseconds, short } from "../words";
import { compose } from "./layout";

export function overheadCharts({ summary }: View): Chart[] {
  return summary.setup.loads.flatMap((load) => {
    const rows = overheads(cellsOf(summary, load));
    return rows.length > 0 ? [one(summary, load, rows)] : [];
  });
}

function one(summary: Summary, load: Load, rows: OverheadRow[]): Chart {
  const words = rows.map((r) => `${r.mesh} ${r.percentile} ${range(r)}`);
  return {
    title: loadWords(load),
    description: `Latency added over ${summary.baseline}: ${words.join("; ")}.`,
    file: `tare-overhead-${fileName(load.name)}`,
    rows,
    draw: (width) => draw(summary, rows, width),
  };
}

function range(row: OverheadRow): string {
  if (row.low === null || row.high === null) return `${milliseconds(row.ms)}, no interval`;
  const end = row.distinct ? "" : ", not distinguishable";
  return `${milliseconds(row.ms)} (${milliseconds(row.low)} to ${milliseconds(row.high)})${end}`;
}

const AXIS = 40;
const GAP = 14;
const HEADING = 30;
const ROW = 20;

/** Groups the percentiles by scale. A percentile whose values extend more than four times as far as those of the first
 * percentile in the group begins a new group. */
export function groupsByScale(rows: OverheadRow[]): OverheadRow[][] {
  const extent = (r: OverheadRow): number => Math.max(Math.abs(r.low ?? r.ms), Math.abs(r.high ?? r.ms));
  const groups: { first: number; rows: OverheadRow[] }[] = [];
  for (const percentile of new Set(rows.map((r) => r.percentile))) {
    const here = rows.filter((r) => r.percentile === percentile);
    const size = Math.max(...here.map(extent));
    const group = groups.at(-1);
    if (group && size <= 4 * group.first) group.rows.push(...here);
    else groups.push({ first: size, rows: here });
  }
  return groups.map((group) => group.rows);
}

/** Draws the groups below each other, each with its axis. */
function draw(summary: Summary, rows: OverheadRow[], width: number): SVGSVGElement {
  let height = 0;
  const parts = groupsByScale(rows).map((group) => {
    const svg = drawGroup(summary, group, width);
    const part = { svg, x: 0, y: height };
    height += Number(svg.getAttribute("height")) + GAP;
    return part;
  });
  return compose(parts, width, height - GAP);
}

function drawGroup(summary: Summary, rows: OverheadRow[], width: number): SVGSVGElement {
  const names = meshes(summary).filter((m) => rows.some((r) => r.mesh === m));
  const percentiles = [...new Set(rows.map((r) => r.percentile))];
  const stroke = (r: OverheadRow): string => colour(summary, r.mesh);
  const ends = rows.flatMap((r) => [r.ms, r.low ?? r.ms, r.high ?? r.ms]);
  return Plot.plot({
    ...BASE,
    width,
    height: AXIS + 20 + percentiles.length * (names.length * ROW + HEADING),
    marginLeft: 92,
    marginRight: 14,
    marginTop: 20,
    marginBottom: AXIS,
    x: { domain: [Math.min(0, ...ends), Math.max(0, ...ends)], nice: true, label: "milliseconds added →", labelAnchor: "right", tickSize: 0, ticks: Math.max(3, Math.floor(width / 90)) },
    y: { domain: names, label: null, tickSize: 0, padding: 0.3, tickFormat: short },
    fy: { domain: percentiles, label: null, axis: null, padding: HEADING / (names.length * ROW + HEADING) },
    marks: [
      Plot.gridX({ stroke: GRID, strokeOpacity: 1 }),
      Plot.text(percentiles, { fy: (p: string) => p, text: (p: string) => p, frameAnchor: "top-left", dy: -13, dx: -85, fontWeight: 600 }),
      Plot.ruleX([0], { stroke: INK, strokeWidth: 1.25 }),
      Plot.link(rows.filter((r) => r.low !== null), {
        x1: "low", x2: "high", y1: "mesh", y2: "mesh", fy: "percentile", stroke, strokeWidth: 2,
      }),
      Plot.dot(rows, {
        x: "ms", y: "mesh", fy: "percentile", r: 4.5, stroke, strokeWidth: 2,
        fill: (r: OverheadRow) => (r.distinct ? stroke(r) : PAPER),
      }),
      Plot.tip(rows, Plot.pointer({
        x: "ms", y: "mesh", fy: "percentile",
        title: (r: OverheadRow) => `${r.mesh}, ${r.percentile}\n${range(r)}`,
        ...TIP,
      })),
    ],
  }) as SVGSVGElement;
}
