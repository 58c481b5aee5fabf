// The latency buckets of the page's details; `crates/report/src/page/series.rs` fills them.
import type { TrialSeries } from "./details";

const PER_DECADE = 20;
const FROM_MS = 0.001;

/** The start of a bucket, in milliseconds. */
export function bucketMs(bucket: number): number {
  return FROM_MS * 10 ** (bucket / PER_DECADE);
}

/** Counts by bucket over all columns of some trials. */
export function histogram(series: TrialSeries[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const [bucket, count] of series.flatMap((s) => s.columns).flatMap((c) => c.buckets)) {
    counts.set(bucket, (counts.get(bucket) ?? 0) + count);
  }
  return counts;
}
