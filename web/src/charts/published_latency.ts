// Published latencies in the chart of percentiles: hollow diamonds with names.
import * as Plot from "@observablehq/plot";
import { nines } from "../data";
import { PUBLISHED, type PublishedAtLoad, withBound } from "../published";
import type { Bound, PublishedFigure } from "../summary";
import { INK, PAPER, TIP } from "../theme";
import { milliseconds } from "../words";
import { spreadLabels } from "./layout";

/** Height of the text above the drawing that names the source of the figures. */
export const SOURCE_HEIGHT = 38;

/** The percentiles on the axis; a maximum has no position there. */
const QUANTILES: Record<string, number> = { p50: 0.5, p90: 0.9, p99: 0.99, "p99.9": 0.999 };

export function isLatency(figure: PublishedFigure): boolean {
  return figure.unit === "ms" && figure.what in QUANTILES;
}

/** A published latency, with the columns of the run's points. */
interface Point {
  mesh: string;
  q: number;
  nines: number;
  ms: number;
  low: null;
  high: null;
  supported: null;
  bound: Bound;
}

export interface Points extends PublishedAtLoad {
  points: Point[];
  /** For screen readers. */
  words: string;
}

/** The latencies on an axis that ends at `last`. */
export function publishedPoints(published: PublishedAtLoad | null, last: number): Points | null {
  if (!published) return null;
  const points = published.figures.flatMap((f): Point[] => {
    const q = QUANTILES[f.what];
    return q === undefined || nines(q) > last
      ? []
      : [{ mesh: f.mesh, q, nines: nines(q), ms: f.value, low: null, high: null, supported: null, bound: f.bound }];
  });
  const each = published.figures.map((f) => `${f.mesh}, ${f.what}: ${withBound(milliseconds(f.value), f.bound)}`);
  return { ...published, points, words: `For comparison, ${PUBLISHED} (${published.source}): ${each.join("; ")}.` };
}

export function publishedMarks(published: Points, y: [number, number], inner: number, width: number): Plot.Markish[] {
  const [low, high] = [Math.log(y[0]), Math.log(y[1])];
  const toPixel = (ms: number): number => ((high - Math.log(ms)) / (high - low)) * inner;
  const columns = [...new Set(published.points.map((p) => p.nines))].sort((a, b) => a - b);
  // Names go outwards, so that those of neighbouring percentiles do not overlap.
  const leftwards = (column: number): boolean => column >= 1 && column !== columns.at(-1);
  // Without room for two names in a row, versions are only in the box under the pointer.
  const name = (p: Point): string => (width < 420 && columns.length > 1 ? (p.mesh.split(" ")[0] ?? "") : p.mesh);
  const names = columns.flatMap((column) => {
    const here = published.points.filter((p) => p.nines === column);
    const placed = spreadLabels(here.map((p) => toPixel(p.ms)), 13, 4, inner - 4);
    return here.map((p, i) =>
      Plot.text([p], {
        x: "nines",
        y: () => Math.exp(high - ((placed[i] ?? 0) / inner) * (high - low)),
        text: () => `${name(p)}, ${withBound(milliseconds(p.ms), p.bound)}`,
        textAnchor: leftwards(column) ? "end" : "start", dx: leftwards(column) ? -9 : 9, fontSize: 11, fontStyle: "italic", fill: INK, stroke: PAPER, strokeWidth: 3,
      }),
    );
  });
  return [
    Plot.dot(published.points, { x: "nines", y: "ms", r: 5, symbol: "diamond", fill: PAPER, stroke: INK, strokeWidth: 1.6 }),
    ...names,
    Plot.tip(published.points, Plot.pointer({
      x: "nines", y: "ms",
      title: (p: Point) => `${p.mesh}\n${withBound(milliseconds(p.ms), p.bound)}\n${PUBLISHED}:\n${published.source}`, ...TIP,
    })),
    Plot.text([`◇ ${PUBLISHED}:\n${published.source}`], {
      frameAnchor: "top-left", dx: -10, dy: -SOURCE_HEIGHT + 2, fontSize: 11, fontStyle: "italic", fill: INK,
    }),
  ];
}
