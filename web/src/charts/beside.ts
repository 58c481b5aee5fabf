// Published latencies in the chart of percentiles: hollow diamonds with a name, where
// the curves are lines.
import * as Plot from "@observablehq/plot";
import { nines, spreadLabels } from "../data";
import { type Beside, ELSEWHERE, withBound } from "../published";
import type { Bound, PublishedFigure } from "../summary";
import { INK, PAPER, TIP } from "../theme";
import { milliseconds } from "../words";

/** Room above the drawing for the words that say where the figures are from. */
export const WORDS_HEIGHT = 38;

/** The percentiles that have a place on the axis; a maximum has none. */
const PLACES: Record<string, number> = { p50: 0.5, p90: 0.9, p99: 0.99, "p99.9": 0.999 };

export function isLatency(figure: PublishedFigure): boolean {
  return figure.unit === "ms" && figure.what in PLACES;
}

/** A published latency, with the columns of the run's own points. */
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

export interface Points extends Beside {
  points: Point[];
  /** For readers by ear. */
  words: string;
}

/** Those that lie on an axis that ends at `last`. */
export function publishedPoints(beside: Beside | null, last: number): Points | null {
  if (!beside) return null;
  const points = beside.figures.flatMap((f): Point[] => {
    const q = PLACES[f.what];
    return q === undefined || nines(q) > last
      ? []
      : [{ mesh: f.mesh, q, nines: nines(q), ms: f.value, low: null, high: null, supported: null, bound: f.bound }];
  });
  const each = beside.figures.map((f) => `${f.mesh}, ${f.what}: ${withBound(milliseconds(f.value), f.bound)}`);
  return { ...beside, points, words: `Beside it, ${ELSEWHERE} (${beside.source}): ${each.join("; ")}.` };
}

export function publishedMarks(beside: Points, y: [number, number], inner: number, width: number): Plot.Markish[] {
  const [low, high] = [Math.log(y[0]), Math.log(y[1])];
  const toPixel = (ms: number): number => ((high - Math.log(ms)) / (high - low)) * inner;
  const columns = [...new Set(beside.points.map((p) => p.nines))].sort((a, b) => a - b);
  // Names go outwards, so that those of neighbouring percentiles do not meet.
  const leftwards = (column: number): boolean => column >= 1 && column !== columns.at(-1);
  // Without room for two names in a row, versions are left to the box under the pointer.
  const name = (p: Point): string => (width < 420 && columns.length > 1 ? (p.mesh.split(" ")[0] ?? "") : p.mesh);
  const names = columns.flatMap((column) => {
    const here = beside.points.filter((p) => p.nines === column);
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
    Plot.dot(beside.points, { x: "nines", y: "ms", r: 5, symbol: "diamond", fill: PAPER, stroke: INK, strokeWidth: 1.6 }),
    ...names,
    Plot.tip(beside.points, Plot.pointer({
      x: "nines", y: "ms",
      title: (p: Point) => `${p.mesh}\n${withBound(milliseconds(p.ms), p.bound)}\n${ELSEWHERE}:\n${beside.source}`, ...TIP,
    })),
    Plot.text([`◇ ${ELSEWHERE}:\n${beside.source}`], {
      frameAnchor: "top-left", dx: -10, dy: -WORDS_HEIGHT + 2, fontSize: 11, fontStyle: "italic", fill: INK,
    }),
  ];
}
