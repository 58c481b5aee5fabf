import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, differences, shortened, variantsOf } from "../src/history/compare";
import type { Entry, HistoryData, Measured } from "../src/history_data";

const measured = (figure: string, anchor: string | null, variant: string): Measured => ({ figure, load: "60rps", anchor, variant });
const series = [
  measured("p50", null, "bare"),
  measured("p50", null, "envoy"),
  measured("p50", "bare", "envoy"),
  measured("memory", null, "envoy"),
  measured("p50", "other", "envoy"),
];

function entry(points: Entry["points"], own: Partial<Entry> = {}): Entry {
  return {
    id: "a", build: "1", at: "", plan: "patrol", plan_key: "p", host: "host", host_key: "h", versions: {}, runs: [], points, ...own,
  };
}

const close = (value: number | null | undefined, expected: number): void => {
  assert.ok(value !== null && value !== undefined && Math.abs(value - expected) < 1e-9, `${value}, expected ${expected}`);
};

test("the ratio of two ratios has an interval with the half-widths in quadrature", () => {
  const earlier = entry([[0, Math.log(2), null], [1, Math.log(6), null], [2, Math.log(3), 0.03], [3, Math.log(50), null]]);
  const later = entry([[0, Math.log(1), null], [1, Math.log(3.6), null], [2, Math.log(3.6), 0.04]]);
  const data: HistoryData = { series, entries: [earlier, later] };
  const variants = variantsOf(data, later);
  assert.deepEqual(variants, ["envoy", "bare"], "the baseline is the last");
  const [ratio, value, ...others] = compare(data, earlier, later, variants);
  assert.deepEqual(others, [], "memory is in one entry only");
  assert.deepEqual([ratio?.figure, ratio?.anchor, ratio?.ratios[1]], ["p50", "bare", null]);
  // 3.6 / 3, and half-widths 0.03 and 0.04: 0.05.
  close(ratio?.ratios[0]?.value, 1.2);
  close(ratio?.ratios[0]?.low, 1.2 * Math.exp(-0.05));
  close(ratio?.ratios[0]?.high, 1.2 * Math.exp(0.05));
  assert.deepEqual([value?.figure, value?.anchor], ["p50", null]);
  close(value?.ratios[0]?.value, 0.6);
  close(value?.ratios[1]?.value, 0.5);
  assert.equal(value?.ratios[0]?.low, null);
});

test("ratios to different baselines are not compared, and an entry without an interval gives none", () => {
  const [a, b, c] = [entry([[2, 1, 0.1]]), entry([[4, 1, 0.1]]), entry([[2, 1, null]])];
  const data: HistoryData = { series, entries: [a, b, c] };
  assert.deepEqual(compare(data, a, b, ["envoy"]), []);
  assert.deepEqual(compare(data, a, c, ["envoy"])[0]?.ratios, [{ value: 1, low: null, high: null }]);
});

test("differences are those of the plan, the host and programs by name", () => {
  const digest = "sha256:8aa137a7d009" + "0".repeat(52);
  const a = entry([], { versions: { "envoy@1.39.3": "1.39.3", tare: "0.1.0", old: "1" } });
  const b = entry([], { versions: { "envoy@1.40.0": `1.40.0 ${digest}`, tare: "0.1.0" }, plan_key: "q" });
  assert.deepEqual(differences(a, a), []);
  assert.deepEqual(differences(a, b), [
    { what: "plan", earlier: "patrol (settings p)", later: "patrol (settings q)" },
    { what: "envoy", earlier: "1.39.3", later: "1.40.0 sha256:8aa137a7d009…" },
    { what: "old", earlier: "1", later: "-" },
  ]);
  assert.equal(shortened(digest), "sha256:8aa137a7d009…");
});
