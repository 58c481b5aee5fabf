// The difference of two entries of a history.
import type { Entry, HistoryData, Measured } from "../history_data";
import type { Bounded } from "../words";

/** A figure in two entries: for each variant the later one divided by the earlier one. */
export interface ComparedFigure {
  figure: string;
  load: string;
  /** The baseline, if ratios to it are compared; null if the figures themselves are. */
  anchor: string | null;
  /** In the order of the variants; null if an entry lacks the figure. */
  ratios: (Bounded | null)[];
}

/** Something that differs between two entries. */
export interface Difference {
  what: string;
  earlier: string;
  later: string;
}

/** The variants of an entry, in its order; the baseline, which has no ratio, is the last. */
export function variantsOf(data: HistoryData, entry: Entry): string[] {
  const measured = entry.points.flatMap(([series]) => data.series[series] ?? []);
  const withRatio = new Set(measured.flatMap((m) => (m.anchor === null ? [] : m.variant)));
  return [...new Set([...withRatio, ...measured.map((m) => m.variant)])];
}

/** The figures that both entries have, ratios to the baseline before the figures themselves. A difference of logarithms
 * is a ratio. The entries are independent, so the half-widths of their intervals are added in quadrature. */
export function compare(data: HistoryData, earlier: Entry, later: Entry, variants: string[]): ComparedFigure[] {
  const before = new Map(earlier.points.map(([series, log, half]) => [series, { log, half }]));
  const figures = new Map<string, ComparedFigure>();
  const keyOf = (m: Measured): string => JSON.stringify([m.figure, m.load, m.anchor]);
  const pointsOfLater = [...later.points].sort(([a], [b]) => a - b);
  for (const [series, log, half] of pointsOfLater) {
    const [of, old] = [data.series[series], before.get(series)];
    const column = variants.indexOf(of?.variant ?? "");
    if (!of || !old || column < 0) continue;
    const known = figures.get(keyOf(of));
    const row = known ?? { figure: of.figure, load: of.load, anchor: of.anchor, ratios: variants.map(() => null) };
    if (!known) figures.set(keyOf(of), row);
    const width = half === null || old.half === null ? null : Math.hypot(half, old.half);
    const difference = log - old.log;
    row.ratios[column] = {
      value: Math.exp(difference),
      low: width === null ? null : Math.exp(difference - width),
      high: width === null ? null : Math.exp(difference + width),
    };
  }
  return [...figures.values()].sort((a, b) => Number(a.anchor === null) - Number(b.anchor === null));
}

/** What differs between two entries beside their figures. */
export function differences(earlier: Entry, later: Entry): Difference[] {
  const found: Difference[] = [];
  const add = (what: string, a: string, b: string, same = a === b): void => {
    if (!same) found.push({ what, earlier: a, later: b });
  };
  const keyed = (words: string, own: string, other: string): string => (own === other ? words : `${words} (settings ${own})`);
  add("plan", keyed(earlier.plan, earlier.plan_key, later.plan_key), keyed(later.plan, later.plan_key, earlier.plan_key));
  add("host", keyed(earlier.host, earlier.host_key, later.host_key), keyed(later.host, later.host_key, earlier.host_key));
  const [before, after] = [programs(earlier), programs(later)];
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const [a, b] = [before.get(name), after.get(name)];
    add(name, a ? a.map(shortened).join(", ") : "-", b ? b.map(shortened).join(", ") : "-", a?.join() === b?.join());
  }
  return found;
}

/** The programs of an entry by their names without versions. */
function programs(entry: Entry): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const [program, version] of Object.entries(entry.versions)) {
    const name = program.split("@")[0] ?? program;
    all.set(name, [...(all.get(name) ?? []), version ?? ""]);
  }
  return all;
}

/** A version with the first 12 digits of its digest. */
export function shortened(version: string): string {
  return version.replace(/(sha256:[0-9a-f]{12})[0-9a-f]+/g, "$1…");
}
