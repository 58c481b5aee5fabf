// Numbers and names in charts, formatted as in the tables.
import type { Load, Outcome, QuantileSpread, Ratio, TrialStatus } from "./summary";

export const OUTCOMES: Record<Outcome, string> = {
  different: "different",
  same: "the same within the margin",
  not_resolved: "not resolved",
};

export const STATUSES: Record<TrialStatus, string> = {
  used: "used",
  failed: "failed",
  run_again: "block run again",
  left_out: "block left out",
  excluded: "excluded on request",
  unplanned: "not in the plan",
};

/** What the ends beside a figure are. */
export const SPREADS: Record<QuantileSpread, string> = { interval: "interval", range: "range of the trials" };

/** Three significant digits, without an exponent. */
export function significant(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(6, Math.max(0, 2 - magnitude)));
}

export function milliseconds(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1) return `${significant(ms * 1000)} µs`;
  return size < 1000 ? `${significant(ms)} ms` : `${significant(ms / 1000)} s`;
}

/** A ratio and the ends of its interval. */
export type Bounded = Pick<Ratio, "value" | "low" | "high">;

/** A ratio and the ends of its interval, with as many digits as the interval needs. */
function ratioDigits(value: number, low: number, high: number): [string, string, string] {
  const digits = (x: number): string =>
    high / low < 3 ? x.toFixed(decimalsFor((high - low) / 2)) : x.toFixed(between(0, 1 - Math.floor(Math.log10(x)), 6));
  return [digits(value), digits(low), digits(high)];
}

/** Decimals that show one significant digit of `half`, or two if the first is 1. */
function decimalsFor(half: number): number {
  if (!(half > 0) || !Number.isFinite(half)) return 3;
  const magnitude = Math.floor(Math.log10(half));
  return between(0, (half / 10 ** magnitude < 2 ? 1 : 0) - magnitude, 3);
}

function between(least: number, value: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

/** From this ratio of its ends on, an interval has no use as a range. */
const USELESS = 1000;
/** From this ratio on, its number does not matter. */
const RATIO_MAX = 10_000;

/** A ratio in two digits, without digits that mean nothing. */
function ratioNumber(value: number): string {
  if (value >= RATIO_MAX) return ">10,000";
  if (value <= 1 / RATIO_MAX) return "<0.0001";
  return value.toFixed(between(0, 1 - Math.floor(Math.log10(value)), 6));
}

/** What an interval says that has no use as a range; null for one that is worth printing. */
function wideWords(low: number, high: number): string | null {
  if (high / low < USELESS) return null;
  if (low > 1) return `at least ${ratioNumber(low)}`;
  return high < 1 ? `at most ${ratioNumber(high)}` : "no useful interval";
}

/** A ratio with its interval: `x5.3 (4.5 to 6.2)`; `x6.0 (no useful interval)`. */
export function ratioInterval(ratio: Bounded): string {
  if (ratio.low === null || ratio.high === null) {
    const capped = ratio.value >= RATIO_MAX || ratio.value <= 1 / RATIO_MAX;
    return `x${capped ? ratioNumber(ratio.value) : significant(ratio.value)}`;
  }
  const wide = wideWords(ratio.low, ratio.high);
  if (wide !== null) return `x${ratioNumber(ratio.value)} (${wide})`;
  const [value, low, high] = ratioDigits(ratio.value, ratio.low, ratio.high);
  return `x${value} (${low} to ${high})`;
}

const SIGNS: Record<Outcome, string> = { different: "", same: "= ", not_resolved: "? " };

/** The meaning of the signs that some ratios have; empty if none has a sign. */
export function signWords(ratios: Pick<Ratio, "outcome">[]): string {
  const outcomes = (["same", "not_resolved"] as const).filter((outcome) => ratios.some((r) => r.outcome === outcome));
  return outcomes.map((outcome) => SIGNS[outcome] + OUTCOMES[outcome]).join("; ");
}

/** A ratio with its interval and the sign of its outcome: `? x1.3 (0.8 to 2.2)`. */
export function ratioSigned(ratio: Bounded & Pick<Ratio, "outcome">): string {
  return SIGNS[ratio.outcome] + ratioInterval(ratio);
}

/** What is known of a ratio, in few words: `x5.3 (4.5 to 6.2)`, `= x1.01`, `? between x0.8 and x2.2`. */
export function ratioBrief(ratio: Bounded & Pick<Ratio, "outcome">): string {
  if (ratio.low === null || ratio.high === null) return `${ratioSigned(ratio)} in a single block`;
  const [value, low, high] = ratioDigits(ratio.value, ratio.low, ratio.high);
  if (ratio.outcome === "same") return `${SIGNS.same}x${value}`;
  const wide = wideWords(ratio.low, ratio.high);
  if (wide !== null) return ratio.outcome === "not_resolved" ? `${SIGNS.not_resolved}${wide}` : ratioInterval(ratio);
  return ratio.outcome === "not_resolved" ? `${SIGNS.not_resolved}between x${low} and x${high}` : ratioInterval(ratio);
}

/** The outcome of a ratio, the difference on this machine, and the number of blocks. */
export function ratioDetails(ratio: Ratio): string[] {
  const blocks = `${ratio.blocks.length} ${ratio.blocks.length === 1 ? "block" : "blocks"}`;
  const size = ratio.unit === "bytes" ? mebibytes(ratio.difference) : milliseconds(ratio.difference / 1e6);
  return [OUTCOMES[ratio.outcome], `${ratio.difference > 0 ? "+" : ""}${size} on this machine`, blocks];
}

function mebibytes(bytes: number): string {
  return `${significant(bytes / 1024 / 1024)} MiB`;
}

/** The heading of a load. */
export function loadWords(load: Load): string {
  const rate = `${load.rate_rps.toLocaleString("en", { maximumFractionDigits: 2 })} rps`;
  return load.name.replaceAll(" ", "") === rate.replace(/[ ,]/g, "") ? rate : `${load.name} (${rate})`;
}

/** Most characters of a shortened name. */
const SHORT = 13;

/** The name of a mesh, shortened so that it is unlike the others of `all`: without the folder that all have in common, and without
 * its middle. */
export function short(name: string, all: readonly string[]): string {
  const folder = name.slice(0, name.indexOf("/") + 1);
  const rest = (n: string): string => (all.length > 1 && all.every((a) => a.startsWith(folder)) ? n.slice(folder.length) : n);
  const cut = (n: string): string => (n.length > SHORT ? `${n.slice(0, 5)}…${n.slice(-(SHORT - 6))}` : n);
  const shortened = cut(rest(name));
  return all.some((other) => other !== name && cut(rest(other)) === shortened) ? rest(name) : shortened;
}
