// Rows for charts from the embedded summary. Only units and positions are computed here; every figure is in the summary.
import type { Cell, Load, Ratio, Summary } from "./summary";

/** Latency at a percentile. */
export interface CurvePoint {
  mesh: string;
  q: number;
  nines: number;
  ms: number;
  low: number;
  high: number;
  supported: boolean;
}

/** A ratio of two meshes. */
export interface RatioRow {
  mesh: string;
  reference: string;
  /** What is compared, in words. */
  figure: string;
  ratio: Ratio;
}

/** Position of a quantile on the axis: 0.9 at 1, 0.99 at 2, 0.999 at 3. */
export function nines(q: number): number {
  return -Math.log10(1 - q);
}

/** The percentile at a position on the axis, such as `99.9`. */
export function percentile(at: number): string {
  const q = 100 * (1 - 10 ** -at);
  return String(Number(q.toFixed(Math.max(0, Math.ceil(at) - 2) + (at % 1 === 0 ? 0 : 1))));
}

/** Names of the meshes: the baseline first, then in the order of the plan. */
export function meshes(summary: Summary): string[] {
  const names = summary.setup.meshes.map((mesh) => mesh.name);
  return [...names.filter((n) => n === summary.baseline), ...names.filter((n) => n !== summary.baseline)];
}

/** Index of a mesh's colour, as in the page's `mesh-N` classes. */
export function colourIndex(summary: Summary, mesh: string): number {
  const at = meshes(summary).indexOf(mesh);
  return at <= 0 ? 0 : ((at - 1) % 7) + 1;
}

export function cellsOf(summary: Summary, load: Load): Cell[] {
  const order = meshes(summary);
  return summary.cells
    .filter((cell) => cell.load === load.name)
    .sort((a, b) => order.indexOf(a.mesh) - order.indexOf(b.mesh));
}

export function curves(cells: Cell[]): CurvePoint[] {
  return cells.flatMap((cell) =>
    cell.spectrum.map((p) => ({
      mesh: cell.mesh,
      q: p.q,
      nines: nines(p.q),
      ms: p.ns / 1e6,
      low: p.min_ns / 1e6,
      high: p.max_ns / 1e6,
      supported: p.supported,
    })),
  );
}

/** The part of the curves with enough responses, and the part with too few. The latter begins at the last point of the
 * former, so that the line is continuous. */
export function splitBySupport(points: CurvePoint[]): { supported: CurvePoint[]; unsupported: CurvePoint[] } {
  const supported = points.filter((p) => p.supported);
  const unsupported = points.filter((p, i) => !p.supported || (points[i + 1]?.mesh === p.mesh && !points[i + 1]?.supported));
  return { supported, unsupported };
}

/** The figures of a comparison that are drawn; of several names, the first that it has. */
const COMPARED: [string, string][][] = [
  [["p50", "p50"]],
  [["p99", "p99"]],
  [["proxy_cpu", "proxy CPU per request"], ["cpu", "CPU per request"], ["node_cpu", "node CPU per request"]],
];

/** Most meshes for which also the pairs without the baseline are drawn, as in the answers. */
const ALL_PAIRS_MESHES_MAX = 3;

/** Whether the page has more pairs of meshes than those that are drawn. */
export function hasMorePairs(summary: Summary): boolean {
  return summary.setup.meshes.length > ALL_PAIRS_MESHES_MAX;
}

/** The ratios under a load, those to the baseline first. */
export function ratioRows(summary: Summary, load: Load): RatioRow[] {
  const here = summary.comparisons.filter((c) => c.load === load.name);
  const others = hasMorePairs(summary) ? [] : here.filter((c) => c.reference !== summary.baseline);
  return [...here.filter((c) => c.reference === summary.baseline), ...others].flatMap(({ mesh, reference, ratios }) =>
    COMPARED.flatMap((names): RatioRow[] => {
      for (const [what, figure] of names) {
        const ratio = ratios.find((r) => r.what === what);
        if (ratio) return [{ mesh, reference, figure, ratio }];
      }
      return [];
    }),
  );
}
