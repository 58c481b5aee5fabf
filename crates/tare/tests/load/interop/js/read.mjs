// Reads an interval log with HdrHistogram's JavaScript library and prints what it
// finds, one line for each series: tag, intervals, count, and percentiles in
// nanoseconds.
import { readFileSync } from "node:fs";
import hdr from "hdr-histogram-js";

const reader = new hdr.HistogramLogReader(readFileSync(process.argv[2], "utf8"), 64);
const all = new Map();
for (;;) {
  const next = reader.nextIntervalHistogram();
  if (next === null) break;
  const tag = next.tag === "NO TAG" ? "" : (next.tag ?? "");
  if (!all.has(tag)) {
    const sum = hdr.build({
      bitBucketSize: 64,
      lowestDiscernibleValue: 1,
      highestTrackableValue: 3600000000000,
      numberOfSignificantValueDigits: 3,
    });
    all.set(tag, { intervals: 0, sum });
  }
  const of = all.get(tag);
  of.intervals += 1;
  of.sum.add(next);
}
for (const tag of [...all.keys()].sort()) {
  const { intervals, sum } = all.get(tag);
  const values = [50, 90, 99, 99.9, 100].map((p) => sum.getValueAtPercentile(p));
  console.log([tag, intervals, sum.totalCount, ...values].join(","));
}
