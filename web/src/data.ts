// From the embedded summary to rows for charts. No figure is computed here that
// the summary does not hold; only units and positions.
import type { Cell, Difference, Load, Summary } from "./summary";

/** Latency at a place on the axis of nines. */
export interface CurvePoint {
  mesh: string;
  q: number;
  nines: number;
  ms: number;
  low: number;
  high: number;
  supported: boolean;
}

/** A difference to the baseline, in milliseconds. */
export interface OverheadRow {
  mesh: string;
  percentile: string;
  ms: number;
  low: number | null;
  high: number | null;
  distinct: boolean;
}

/** Where a quantile lies on the axis: 0.9 at 1, 0.99 at 2, 0.999 at 3. */
export function nines(q: number): number {
  return -Math.log10(1 - q);
}

/** The percentile at a place on the axis, as people write it: `99.9`. */
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

/** The part of the curves that may be stated, and the part that may not, which
 * begins at the last supported point so that the line does not break. */
export function splitBySupport(points: CurvePoint[]): { firm: CurvePoint[]; thin: CurvePoint[] } {
  const firm = points.filter((p) => p.supported);
  const thin = points.filter((p, i) => !p.supported || (points[i + 1]?.mesh === p.mesh && !points[i + 1]?.supported));
  return { firm, thin };
}

export function overheads(cells: Cell[]): OverheadRow[] {
  return cells.flatMap((cell) =>
    (cell.overhead?.latency ?? []).filter((d) => d.supported).map((d: Difference) => ({
      mesh: cell.mesh,
      percentile: d.what,
      ms: d.value / 1e6,
      low: d.low === null ? null : d.low / 1e6,
      high: d.high === null ? null : d.high / 1e6,
      distinct: d.distinction === "higher" || d.distinction === "lower",
    })),
  );
}

/** Moves labels apart to at least `gap`, keeping their order and staying in [top, bottom]. */
export function spreadLabels(at: number[], gap: number, top: number, bottom: number): number[] {
  const order = at.map((y, i) => ({ y, i })).sort((a, b) => a.y - b.y);
  let floor = top;
  for (const label of order) {
    label.y = Math.max(label.y, floor);
    floor = label.y + gap;
  }
  let ceiling = bottom;
  for (const label of order.reverse()) {
    label.y = Math.min(label.y, ceiling);
    ceiling = label.y - gap;
  }
  const placed = new Array<number>(at.length);
  for (const label of order) placed[label.i] = label.y;
  return placed;
}

/** Comma-separated values (RFC 4180), with a column for each key of any row. A cell that a spreadsheet could take for a
 * formula is kept as text. */
export function csv(rows: object[]): string {
  if (rows.length === 0) return "";
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const field = (value: unknown): string => {
    if (value === null || value === undefined) return "";
    let text = Array.isArray(value) ? value.join(" ") : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map((c) => field((row as Record<string, unknown>)[c])).join(","));
  return [columns.join(","), ...lines].join("\r\n") + "\r\n";
}
