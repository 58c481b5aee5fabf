// The latency buckets of the page's details; `crates/page/src/series.rs` counts in them.
import type { TrialSeries } from "./details";

const PER_DECADE = 20;
const FROM_MS = 0.001;

/** Where a bucket begins. */
export function bucketMs(bucket: number): number {
  return FROM_MS * 10 ** (bucket / PER_DECADE);
}

/** Counts by bucket over whole trials. */
export function histogram(series: TrialSeries[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const [bucket, count] of series.flatMap((s) => s.columns).flatMap((c) => c.buckets)) {
    counts.set(bucket, (counts.get(bucket) ?? 0) + count);
  }
  return counts;
}
