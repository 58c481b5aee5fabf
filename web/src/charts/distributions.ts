// Two distributions in one chart: of meshes, or of single trials.
import * as Plot from "@observablehq/plot";
import { bucketMs, histogram } from "../buckets";
import type { Chart } from "../figure";
import { type Panel, select } from "../panel";
import { BASE, colour, GRID, INK, TIP } from "../theme";
import { seriesOf, trialWords, type View } from "../view";
import { milliseconds, significant } from "../words";
import { answerLoad } from "./headline";
import { logDomain, logTicks, tickWords } from "./layout";

/** One of the two distributions: a mesh under a load (all used trials) or a single trial. */
interface Source {
  value: string;
  words: string;
  mesh: string;
  load: string;
  trials: number[];
}

const picked: [string | null, string | null] = [null, null];

function sources(view: View): Source[] {
  const { summary } = view;
  const cells = summary.cells
    .filter((c) => c.trials_used.length > 0)
    .map((c, i) => ({ value: `cell-${i}-${c.mesh}`, words: `${c.mesh} at ${c.load}`, mesh: c.mesh, load: c.load, trials: c.trials_used }));
  const trials = summary.trials
    .filter((t) => seriesOf(view, t.index))
    .map((t) => ({ value: `trial-${t.index}`, words: `trial ${trialWords(t)}`, mesh: t.mesh, load: t.load, trials: [t.index] }));
  return [...cells, ...trials];
}

/** The two distributions that are shown. Default: the baseline and the last mesh, under the load of the answers. */
function pair(view: View): [Source, Source] | null {
  const all = sources(view);
  const load = answerLoad(view.summary)?.name;
  const here = all.filter((s) => s.load === load);
  const a = all.find((s) => s.value === picked[0]) ?? here.find((s) => s.mesh === view.summary.baseline) ?? all[0];
  const mesh = view.summary.answers.at(-1)?.mesh;
  const b = all.find((s) => s.value === picked[1]) ?? here.find((s) => s.mesh === mesh) ?? all[1];
  return a && b ? [a, b] : null;
}

export const distributions: Panel = {
  controls: (view, redraw) => {
    const now = pair(view);
    const options = sources(view);
    return (["A", "B"] as const).map((label, i) =>
      select(label, options, now?.[i as 0 | 1].value ?? "", (value) => {
        picked[i as 0 | 1] = value;
        redraw();
      }),
    );
  },
  charts: (view) => {
    const now = pair(view);
    return now ? charts(view, now) : [];
  },
};

interface Row {
  side: string;
  low_ms: number;
  high_ms: number;
  count: number;
  share: number;
  below: number;
}

function rowsOf(view: View, source: Source, side: string): Row[] {
  const counts = [...histogram(source.trials.flatMap((t) => seriesOf(view, t) ?? []))].sort((a, b) => a[0] - b[0]);
  const whole = counts.reduce((sum, [, n]) => sum + n, 0);
  let below = 0;
  return counts.map(([bucket, count]) => {
    below += count;
    return { side, low_ms: bucketMs(bucket), high_ms: bucketMs(bucket + 1), count, share: (100 * count) / whole, below: (100 * below) / whole };
  });
}

function charts(view: View, [a, b]: [Source, Source]): Chart[] {
  const rows = [...rowsOf(view, a, "A"), ...rowsOf(view, b, "B")];
  if (rows.length === 0) return [];
  const inkOf = (mesh: string): string => colour(view.summary, mesh);
  const inks: [string, string] = [inkOf(a.mesh), a.mesh === b.mesh ? INK : inkOf(b.mesh)];
  const words = [a, b].map((s, i) => {
    const half = rows.find((r) => r.side === "AB"[i] && r.below >= 50);
    return half ? `${"AB"[i]}, ${s.words}: half of the responses took at most ${milliseconds(half.high_ms)}` : "";
  });
  const names: [string, string] = [a.words, b.words];
  const of = (title: string, file: string, draw: Chart["draw"]): Chart => ({
    title, description: words.join("; "), file: `tare-distributions-${file}`, rows, draw,
  });
  return [
    of("Share of responses", "share", (width) => plot(rows, "share", inks, names, width)),
    of("Cumulative share", "cumulative", (width) => plot(rows, "below", inks, names, width)),
  ];
}

function plot(rows: Row[], key: "share" | "below", inks: [string, string], names: [string, string], width: number): SVGSVGElement {
  const x = logDomain(rows.flatMap((r) => [r.low_ms, r.high_ms]), 1);
  const sides = (["A", "B"] as const).map((side, i) => ({ rows: rows.filter((r) => r.side === side), ink: inks[i as 0 | 1] }));
  const ticks = logTicks(x);
  const marks = sides.flatMap(({ rows: here, ink }) =>
    key === "share"
      ? [
          Plot.rect(here, { x1: "low_ms", x2: "high_ms", y1: () => 0, y2: "share", fill: ink, fillOpacity: 0.35 }),
          Plot.line(outline(here), { x: "0", y: "1", stroke: ink, strokeWidth: 1.75 }),
        ]
      : [Plot.line(here, { x: "high_ms", y: "below", stroke: ink, strokeWidth: 2.25 })],
  );
  // A peak can be anywhere, so the names are above the shares; a cumulative share leaves room at the lower right.
  const above = key === "share" ? 32 : 0;
  const legend = sides.map(({ ink }, i) =>
    Plot.text([names[i as 0 | 1]], { text: (t: string) => `${"AB"[i]} ${t}`, frameAnchor: above ? "top-right" : "bottom-right", textAnchor: "end", lineAnchor: above ? "bottom" : "middle", dy: (above ? -22 : -24) + 16 * i, dx: -6, fill: ink, fontWeight: 600 }));
  return Plot.plot({
    ...BASE,
    width, height: 280 + above, marginLeft: 48, marginRight: 14, marginTop: 24 + above, marginBottom: 44,
    x: { type: "log", domain: x, label: null },
    y: { domain: key === "share" ? undefined : [0, 100], label: "↑ %", tickSize: 0, ticks: 5, nice: true, zero: true } as Plot.ScaleOptions,
    marks: [
      Plot.gridY({ stroke: GRID, strokeOpacity: 1, ticks: 5 }),
      Plot.axisX(ticks, { ticks: Infinity, tickSize: 0, tickFormat: tickWords, label: "milliseconds →", labelAnchor: "right" }),
      ...marks,
      ...legend,
      Plot.ruleY([0], { stroke: INK }),
      Plot.tip(rows, Plot.pointer({
        x: "high_ms", y: key, ...TIP,
        title: (r: Row) => `${r.side}: ${milliseconds(r.low_ms)} to ${milliseconds(r.high_ms)}\n${r.count} responses, ${significant(r.share)} %\n${significant(r.below)} % up to here`,
      })),
    ],
  }) as SVGSVGElement;
}

/** The upper edge of the bars as one line, with zeros in the gaps. */
function outline(rows: Row[]): [number, number][] {
  const points: [number, number][] = [];
  rows.forEach((row, i) => {
    const before = rows[i - 1];
    if (!before || before.high_ms < row.low_ms * 0.999) {
      if (before) points.push([before.high_ms, 0]);
      points.push([row.low_ms, 0]);
    }
    points.push([row.low_ms, row.share], [row.high_ms, row.share]);
  });
  const last = rows.at(-1);
  if (last) points.push([last.high_ms, 0]);
  return points;
}
