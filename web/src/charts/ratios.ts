// The ratios of the meshes: a dot with its interval on a logarithmic axis, with a line at 1 and the margin as a band.
import * as Plot from "@observablehq/plot";
import { hasMorePairs, type RatioRow, ratioRows } from "../data";
import { type Chart, fileName } from "../figure";
import type { Load, Summary } from "../summary";
import { BASE, colour, GRID, INK, PAPER, QUIET, TIP } from "../theme";
import type { View } from "../view";
import { loadWords, ratioDetails, ratioSigned, short, signWords } from "../words";
import { compose, logDomain, ratioTicks } from "./layout";

export function ratioCharts({ summary }: View): Chart[] {
  const all = groupsOf(summary, summary.setup.loads.flatMap((load) => ratioRows(summary, load)));
  return summary.setup.loads.flatMap((load) => {
    const groups = groupsOf(summary, ratioRows(summary, load)).map((group) => ({
      ...group, everywhere: all.find((g) => g.name === group.name)?.rows ?? group.rows,
    }));
    return groups.length > 0 ? [one(summary, load, groups)] : [];
  });
}

/** Ratios with a common axis: those to the baseline, or those of another pair. */
interface Group {
  name: string;
  rows: RatioRow[];
}

/** A group under one load, and its rows under all loads, which share the axis and the width of the words. */
interface GroupAtLoad extends Group {
  everywhere: RatioRow[];
}

function groupsOf(summary: Summary, rows: RatioRow[]): Group[] {
  const groups: Group[] = [];
  for (const row of rows) {
    const name = row.reference === summary.baseline ? `over ${row.reference}` : pair(row);
    const group = groups.find((g) => g.name === name);
    if (group) group.rows.push(row);
    else groups.push({ name, rows: [row] });
  }
  return groups;
}

function pair(row: RatioRow): string {
  return `${row.mesh} over ${row.reference}`;
}

/** Ends of intervals beyond this factor are not worth the room. */
const FAR = 1000;

/** The axis of a group. It contains 1 and the margins. */
function domain(rows: RatioRow[]): [number, number] {
  const ends = rows.flatMap(({ ratio: r }) => [
    r.value, 1 + r.margin, 1 / (1 + r.margin), Math.max(r.low ?? 1, 1 / FAR), Math.min(r.high ?? 1, FAR),
  ]);
  return logDomain(ends, 1.04);
}

function one(summary: Summary, load: Load, groups: GroupAtLoad[]): Chart {
  const rows = groups.flatMap((g) => g.rows);
  const words = rows.map((r) => `${pair(r)}, ${r.figure}: ${ratioSigned(r.ratio)}, ${ratioDetails(r.ratio).join(", ")}`);
  return {
    title: loadWords(load),
    description: `Ratios of the meshes, with intervals. ${words.join("; ")}.`,
    note: note(summary, rows),
    file: `tare-ratios-${fileName(load.name)}`,
    rows: rows.map(({ mesh, reference, figure, ratio }) => ({
      mesh, reference, figure, ratio: ratio.value, low: ratio.low, high: ratio.high, outcome: ratio.outcome,
      primary: ratio.primary, margin: ratio.margin, difference: ratio.difference, unit: ratio.unit, blocks: ratio.blocks.length,
    })),
    draw: (width) => {
      // Without room beside the dots, name and ratio are above each dot.
      const above = groups.some((group) => width - namesWidth(group) - wordsWidth(group) < 150);
      let height = 0;
      const parts = groups.map((group) => {
        const svg = draw(summary, group, above, width);
        const part = { svg, x: 0, y: height };
        height += Number(svg.getAttribute("height")) + GAP;
        return part;
      });
      return compose(parts, width, height - GAP);
    },
  };
}

function note(summary: Summary, rows: RatioRow[]): string {
  const primary = rows.filter((r) => r.ratio.primary).length;
  const sentences: string[] = [];
  if (primary === 0) sentences.push("All exploratory: among many ratios, some are different by chance.");
  else if (primary < rows.length) sentences.push("Strong: the primary questions. Thin: exploratory; among many, some are different by chance.");
  const signs = signWords(rows.map((r) => r.ratio));
  if (signs) sentences.push(`${signs}.`);
  if (hasMorePairs(summary)) sentences.push("The table below has all pairs of meshes.");
  return sentences.join(" ");
}

const AXIS = 40;
const GAP = 10;

/** A line of the drawing: a ratio with its label, or a heading. */
interface Line {
  key: string;
  label: string;
  row: RatioRow | null;
}

/** Several meshes by figure, so that they can be compared; the figures of a single pair under its name. */
function linesOf(group: Group): Line[] {
  const names = [...new Set(group.rows.flatMap((r) => [r.mesh, r.reference]))];
  const pairs = new Set(group.rows.map(pair));
  const single = pairs.size === 1;
  const over = (r: RatioRow): string => `over ${short(r.reference, names)}`;
  const heading = (r: RatioRow): string => (single ? `${short(r.mesh, names)} ${over(r)}` : `${r.figure}, ${over(r)}`);
  return [...new Set(group.rows.map(heading))].flatMap((words) => [
    { key: words, label: words, row: null },
    ...group.rows.filter((r) => heading(r) === words).map((row) => ({
      key: `${words}\n${row.mesh}\n${row.figure}`, label: single ? row.figure : short(row.mesh, names), row,
    })),
  ]);
}

function namesWidth(group: Group): number {
  return 16 + 6.6 * Math.max(...linesOf(group).filter((l) => l.row !== null).map((l) => l.label.length));
}

function wordsWidth(group: GroupAtLoad): number {
  return 14 + 7 * Math.max(...group.everywhere.map((r) => ratioSigned(r.ratio).length));
}

function draw(summary: Summary, group: GroupAtLoad, above: boolean, width: number): SVGSVGElement {
  const x = domain(group.everywhere);
  const lines = linesOf(group);
  const keys = new Map(lines.map((l) => [l.row, l.key]));
  const rows = lines.flatMap((l) => l.row ?? []);
  const y = (r: RatioRow): string => keys.get(r) ?? "";
  const labelled = lines.filter((l) => l.row !== null);
  const [left, right, step] = above ? [12, 14, 38] : [namesWidth(group), wordsWidth(group), 22];
  const [up, down, insetTop] = above ? [-9, 9, step / 2] : [0, 0, 0];
  const stroke = (r: RatioRow): string => colour(summary, r.mesh);
  const ticks = ratioTicks(x);
  const strengths = [true, false].map((primary) => ({ primary, here: rows.filter((r) => r.ratio.primary === primary) }));
  return Plot.plot({
    ...BASE,
    width, height: AXIS + 4 + lines.length * step,
    marginLeft: left, marginRight: right, marginTop: 4, marginBottom: AXIS,
    x: { type: "log", domain: x, clamp: true, label: null },
    y: { domain: lines.map((l) => l.key), axis: null, padding: 0 },
    marks: [
      Plot.barX(rows, { x1: (r: RatioRow) => 1 / (1 + r.ratio.margin), x2: (r: RatioRow) => 1 + r.ratio.margin, y, insetTop, fill: QUIET, fillOpacity: 0.2 }),
      Plot.gridX(ticks, { stroke: GRID, strokeOpacity: 1 }),
      Plot.axisX(ticks, { ticks: Infinity, tickSize: 0, tickFormat: (t: number) => `x${Number(t.toPrecision(3))}`, label: "ratio →", labelAnchor: "right" }),
      Plot.tickX(rows, { x: () => 1, y, insetTop, stroke: INK, strokeWidth: 1.25 }),
      Plot.text(lines.filter((l) => l.row === null), { y: "key", text: "label", frameAnchor: "left", textAnchor: "start", dx: 7 - left, dy: 2, fontWeight: 600, stroke: PAPER, strokeWidth: 4, fill: INK }),
      Plot.text(labelled, { y: "key", text: "label", frameAnchor: "left", textAnchor: above ? "start" : "end", dx: above ? 0 : -7, dy: up, stroke: PAPER, strokeWidth: 4, fill: INK }),
      ...strengths.flatMap(({ primary, here }) => [
        Plot.link(here.filter((r) => r.ratio.low !== null && r.ratio.high !== null), {
          x1: (r: RatioRow) => r.ratio.low, x2: (r: RatioRow) => r.ratio.high, y1: y, y2: y, stroke, strokeWidth: primary ? 3 : 1.5, dy: down,
        }),
        Plot.dot(here, {
          x: (r: RatioRow) => r.ratio.value, y, r: primary ? 5 : 3.5, stroke, strokeWidth: primary ? 2 : 1.5, dy: down,
          fill: (r: RatioRow) => (r.ratio.outcome === "different" ? stroke(r) : PAPER),
        }),
        Plot.text(here, {
          y, text: (r: RatioRow) => ratioSigned(r.ratio), frameAnchor: "right", textAnchor: above ? "end" : "start",
          dx: above ? 0 : 10, dy: up, fontWeight: primary ? 600 : 400, stroke: PAPER, strokeWidth: 4, fill: INK,
        }),
      ]),
      Plot.tip(rows, Plot.pointer({
        x: (r: RatioRow) => r.ratio.value, y, ...TIP,
        title: (r: RatioRow) => [pair(r), r.figure, ratioSigned(r.ratio), ...ratioDetails(r.ratio), r.ratio.primary ? "primary question" : "exploratory"].join("\n"),
      })),
    ],
  }) as SVGSVGElement;
}
