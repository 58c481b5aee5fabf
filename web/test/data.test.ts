import assert from "node:assert/strict";
import { test } from "node:test";
import { needs } from "../src/calculator";
import { ratioTicks, spreadLabels } from "../src/charts/layout";
import { csv } from "../src/csv";
import { type CurvePoint, hasMorePairs, nines, percentile, ratioRows, splitBySupport } from "../src/data";
import type { Load, MeshComparison, Outcome, Ratio, Summary, TrialRow } from "../src/summary";
import { trialWords } from "../src/view";
import { latencySoFar } from "../src/charts/live";
import { milliseconds, ratioBrief, ratioDetails, ratioInterval, ratioSigned, short, significant, signWords } from "../src/words";

test("percentiles are positioned by their number of nines", () => {
  assert.equal(nines(0.9), 1);
  assert.ok(Math.abs(nines(0.999) - 3) < 1e-9);
  assert.deepEqual([0.301, 1, 2, 3, 4].map(percentile), ["50", "90", "99", "99.9", "99.99"]);
});

test("labels are moved apart in order and stay in the frame", () => {
  const placed = spreadLabels([50, 52, 10, 200], 15, 0, 100);
  assert.deepEqual(placed.map((_, i) => i).sort((a, b) => (placed[a] ?? 0) - (placed[b] ?? 0)), [2, 0, 1, 3]);
  const sorted = [...placed].sort((a, b) => a - b);
  sorted.slice(1).forEach((y, i) => assert.ok(y - (sorted[i] ?? 0) >= 15));
  assert.ok(Math.max(...placed) <= 100);
});

test("the unsupported part of each curve begins at the end of the supported part", () => {
  const point = (mesh: string, at: number, supported: boolean): CurvePoint => ({
    mesh, q: 0, nines: at, ms: 1, low: 1, high: 1, supported,
  });
  const points = [point("a", 1, true), point("a", 2, true), point("a", 3, false), point("b", 1, true)];
  const { supported, unsupported } = splitBySupport(points);
  assert.equal(supported.length, 3);
  assert.deepEqual(unsupported.map((p) => [p.mesh, p.nines]), [["a", 2], ["a", 3]]);
});

const load = { name: "400rps", rate_rps: 400 } as Load;

function comparison(mesh: string, reference: string, whats: string[], under = "400rps"): MeshComparison {
  const ratios = whats.map((what) => ({ what, value: 2 }) as Ratio);
  return { mesh, reference, load: under, blocks: [0], ratios };
}

/** Meshes `a` (the baseline), `b`, `c`..., compared in the order of the plan, in which the baseline is last. */
function compared(names: string[]): Summary {
  const comparisons = names.flatMap((mesh, i) =>
    names.slice(0, i).map((reference) => comparison(mesh, reference, reference === "a" ? ["p50", "p90", "p99", "cpu"] : ["p50", "cpu", "proxy_cpu"])));
  const meshes = [...names.slice(1), "a"].map((name) => ({ name }));
  return { baseline: "a", setup: { meshes }, comparisons: comparisons.reverse() } as unknown as Summary;
}

test("the ratios to the baseline are first, with the CPU of the proxies where both have proxies", () => {
  const summary = compared(["a", "b", "c"]);
  summary.comparisons.push(comparison("b", "a", ["p50"], "200rps"));
  assert.equal(hasMorePairs(summary), false);
  assert.deepEqual(ratioRows(summary, load).map((r) => [r.mesh, r.reference, r.figure, r.ratio.what]), [
    ["c", "a", "p50", "p50"],
    ["c", "a", "p99", "p99"],
    ["c", "a", "CPU per request", "cpu"],
    ["b", "a", "p50", "p50"],
    ["b", "a", "p99", "p99"],
    ["b", "a", "CPU per request", "cpu"],
    ["c", "b", "p50", "p50"],
    ["c", "b", "proxy CPU per request", "proxy_cpu"],
  ]);
});

test("with more than three meshes, only the ratios to the baseline are drawn", () => {
  const summary = compared(["a", "b", "c", "d"]);
  assert.equal(hasMorePairs(summary), true);
  assert.deepEqual(new Set(ratioRows(summary, load).map((r) => r.reference)), new Set(["a"]));
  assert.deepEqual(new Set(ratioRows(summary, load).map((r) => r.mesh)), new Set(["b", "c", "d"]));
});

test("ratios have the digits of their interval, as in the tables", () => {
  const of = (value: number, low: number | null, high: number | null): string => ratioInterval({ value, low, high });
  assert.equal(of(5.312, 4.46, 6.18), "x5.3 (4.5 to 6.2)");
  assert.equal(of(1.0131, 1.0071, 1.0192), "x1.013 (1.007 to 1.019)");
  assert.equal(of(6.0, 0.94, 40.2), "x6.0 (0.94 to 40)");
  assert.equal(of(0.06, 0.05, 0.4), "x0.060 (0.050 to 0.40)");
  assert.equal(of(2.5, null, null), "x2.50");
});

test("an interval without use is not printed", () => {
  const huge = 705_710_953_800_312;
  const of = (value: number, low: number | null, high: number | null) => ({ value, low, high, outcome: "not_resolved" as const });
  assert.equal(ratioInterval(of(6, 1 / huge, huge)), "x6.0 (no useful interval)");
  assert.equal(ratioInterval(of(huge, 3, huge)), "x>10,000 (at least 3.0)");
  assert.equal(ratioInterval(of(1 / huge, 0, 0.3)), "x<0.0001 (at most 0.30)");
  assert.equal(ratioInterval(of(huge, null, null)), "x>10,000");
  assert.equal(ratioBrief(of(6, 1 / huge, huge)), "? no useful interval");
});

test("latency without a response is a dash", () => {
  const moment = { second: 1, rps: 100, p50_ms: 1.2, p99_ms: 3.4, errors: 0, cores: null };
  assert.equal(latencySoFar(moment), "median 1.20 ms, p99 3.40 ms");
  assert.equal(latencySoFar({ ...moment, p50_ms: null, p99_ms: null }), "median -, p99 -");
});

test("a ratio is stated with its outcome", () => {
  const of = (outcome: Outcome, value: number, low: number | null, high: number | null) => ({ outcome, value, low, high });
  const different = of("different", 5.7, 4.6, 7.0);
  const same = of("same", 1.0131, 0.98, 1.04);
  const open = of("not_resolved", 1.29, 0.77, 2.18);
  const single = of("not_resolved", 2.5, null, null);
  assert.deepEqual([different, same, open, single].map(ratioBrief), [
    "x5.7 (4.6 to 7.0)", "= x1.01", "? between x0.8 and x2.2", "? x2.50 in a single block",
  ]);
  assert.deepEqual([different, same, open, single].map(ratioSigned), [
    "x5.7 (4.6 to 7.0)", "= x1.01 (0.98 to 1.04)", "? x1.3 (0.8 to 2.2)", "? x2.50",
  ]);
  assert.equal(signWords([different]), "");
  assert.equal(signWords([open, same, open]), "= the same within the margin; ? not resolved");
});

test("the details of a ratio are its outcome, the difference on this machine and the blocks", () => {
  const ratio = (part: Partial<Ratio>): Ratio => ({ outcome: "different", unit: "ns", difference: 2.31e6, blocks: [2, 3], ...part }) as Ratio;
  assert.deepEqual(ratioDetails(ratio({})), ["different", "+2.31 ms on this machine", "2 blocks"]);
  assert.deepEqual(ratioDetails(ratio({ outcome: "not_resolved", difference: -40e3, blocks: [1] })), ["not resolved", "-40.0 µs on this machine", "1 block"]);
  assert.deepEqual(ratioDetails(ratio({ outcome: "same", unit: "bytes", difference: 1.5 * 1024 ** 2 }))[1], "+1.50 MiB on this machine");
});

test("a short axis of ratios has round ticks around 1, a long one has those of logarithmic axes", () => {
  assert.deepEqual(ratioTicks([0.72, 2.3]), [1, 1.5, 2]);
  assert.deepEqual(ratioTicks([0.93, 1.11]), [0.95, 1, 1.05, 1.1]);
  assert.deepEqual(ratioTicks([0.9, 31]), [1, 2, 5, 10, 20]);
});

test("a trial that is not used says why", () => {
  const trial = { index: 7, mesh: "envoy", load: "400rps", block: 1, status: "used" } as TrialRow;
  assert.equal(trialWords(trial), "7: envoy at 400rps, block 2");
  assert.equal(trialWords({ ...trial, status: "run_again" }), "7: envoy at 400rps, block 2, block run again");
});

test("CSV quotes special characters and disables formulas", () => {
  assert.equal(csv([{ a: 1 }, { a: 1000, bound: "over" }]), "a,bound\r\n1,\r\n1000,over\r\n");
  const text = csv([{ a: 'x"y', b: 1.5, c: null }, { a: "=1+1", b: -2, c: [1, 2] }]);
  assert.equal(text, 'a,b,c\r\n"x""y",1.5,\r\n\'=1+1,-2,1 2\r\n');
});

test("numbers have the format of the tables", () => {
  assert.deepEqual([1.923, 0.4123, 12.44, 1234.5, 0].map(significant), ["1.92", "0.412", "12.4", "1235", "0"]);
  assert.deepEqual([0.412345, 1.923, 12400].map(milliseconds), ["412 µs", "1.92 ms", "12.4 s"]);
});

test("a service needs its idle proxies and its hops, in cores, GiB and money", () => {
  const estimate = (value: number, low: number | null, high: number | null) => ({ value, low, high, runs: [] });
  const summary = {
    baseline: "bare",
    setup: { meshes: [{ name: "bare" }, { name: "envoy" }, { name: "none" }] },
    proxy_cpu: [
      { mesh: "none", proxies: 2, idle_cores: estimate(1, null, null), request_ns: estimate(1, null, null), hop_ns: null },
      {
        mesh: "envoy", proxies: 4, idle_cores: estimate(0.04, 0.02, 0.06), request_ns: estimate(4e5, 3e5, 5e5),
        hop_ns: estimate(1e5, 0.9e5, 1.1e5),
      },
    ],
    cells: [{
      mesh: "envoy",
      planes: { data_plane: { processes: 4, memory_bytes: estimate(4 * 1024 ** 2, null, null) } },
    }],
  } as unknown as Summary;
  const all = needs(summary, { proxies: 1024, rps: 10, core_hour: 1, gib_hour: 2 });
  assert.deepEqual(all.map((n) => n.mesh), ["envoy"]);
  const { cores, gib, money } = all[0] ?? assert.fail();
  // 1,024 proxies of 0.01 cores each, and 10,240 hops of 100 µs.
  const close = (found: number, expected: number) => assert.ok(Math.abs(found - expected) < 1e-9, `${found}`);
  close(cores.value, 10.24 + 1.024);
  close(cores.low, 5.12 + 0.9216);
  close(cores.high, 15.36 + 1.1264);
  assert.deepEqual(gib, { value: 1, low: 1, high: 1 });
  close((money?.value ?? 0) / 730.5, 11.264 + 2);
});

test("shortened names are unlike each other", () => {
  const names = ["features/rbac-100-last", "features/rbac-1000-last", "features/mtls", "features/tracing-and-logging"];
  assert.deepEqual(names.map((n) => short(n, names)), ["rbac-100-last", "rbac-…00-last", "mtls", "traci…logging"]);
  const alike = ["authorization-of-many-a", "authorization-on-many-a"];
  assert.deepEqual(alike.map((n) => short(n, alike)), alike);
  assert.deepEqual(["bare", "envoy/mtls"].map((n) => short(n, ["bare", "envoy/mtls"])), ["bare", "envoy/mtls"]);
});
