import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketMs, histogram } from "../src/buckets";
import { endpointCharts } from "../src/charts/endpoints";
import { headline } from "../src/charts/headline";
import { latenessCharts } from "../src/charts/lateness";
import { typicalRuns } from "../src/charts/latency";
import { logDomain, logTicks } from "../src/charts/layout";
import { ratioCharts } from "../src/charts/ratios";
import { type PlaneRow, planeRows, reach } from "../src/charts/resources";
import { firstSweepCharts, sweepCharts } from "../src/charts/sweep";
import type { TrialSeries } from "../src/details";
import type { Cell, Load, Percentile, PlaneEstimate, Quantile, Ratio, Summary } from "../src/summary";
import type { View } from "../src/view";

test("a factor of ten has twenty buckets, and the first begins at one microsecond", () => {
  assert.equal(bucketMs(0), 0.001);
  assert.ok(Math.abs(bucketMs(60) - 1) < 1e-12);
  assert.ok(Math.abs(bucketMs(61) / bucketMs(60) - 10 ** 0.05) < 1e-12);
});

test("a histogram sums columns and trials", () => {
  const series = (buckets: [number, number][][]): TrialSeries =>
    ({ columns: buckets.map((b) => ({ buckets: b })) }) as unknown as TrialSeries;
  const counts = histogram([series([[[3, 1], [5, 2]], [[5, 4]]]), series([[[3, 10]]])]);
  assert.deepEqual([...counts], [[3, 11], [5, 6]]);
});

test("logarithmic axes contain their values", () => {
  assert.deepEqual(logTicks([0.4, 12]), [0.5, 1, 2, 5, 10]);
  assert.deepEqual(logTicks([0.5, 5000]), [1, 10, 100, 1000]);
  const [low, high] = logDomain([0, 2, 8]);
  assert.ok(low < 2 && low > 1 && high > 8);
  assert.deepEqual(logDomain([]), [0.1, 1]);
});

test("only the control plane is stacked, on the data plane", () => {
  const plane = (value: number): PlaneEstimate =>
    ({ processes: 2, cpu_cores: { value, low: null, high: null, runs: [value] } }) as unknown as PlaneEstimate;
  const cell = {
    mesh: "m", load: "l",
    planes: { application: plane(5), control_plane: plane(1), data_plane: plane(3) },
  };
  const summary = { baseline: "m", setup: { meshes: [{ name: "m" }] }, cells: [cell] } as unknown as Summary;
  const rows = planeRows(summary, { name: "l" } as Load, (p) => [p.cpu_cores, p.processes]);
  assert.deepEqual(rows.map((r) => [r.plane, r.group, r.from, r.value, r.runs]), [
    ["data plane", "mesh", 0, 1.5, [1.5]],
    ["control plane", "mesh", 1.5, 0.5, [0.5]],
    ["application", "application", 0, 2.5, [2.5]],
  ]);
});

test("the figure of a stack is to the right of its longest whisker", () => {
  const row = (plane: string, from: number, value: number, high: number | null, runs: number[]): PlaneRow =>
    ({ mesh: "m", group: "mesh", plane, from, value, low: null, high, runs });
  const [data, control] = [row("data plane", 0, 7, 11, [6, 8]), row("control plane", 7, 1, 1.5, [1])];
  const other = { ...row("data plane", 0, 7, 90, []), mesh: "n" };
  assert.equal(reach([data, control, other], control), 11);
  assert.equal(reach([{ ...data, high: null }, { ...control, high: null, runs: [4] }], control), 11);
  assert.equal(reach([{ ...data, high: 8 }, control], control), 8.5);
});

const load = { name: "400rps", rate_rps: 400 } as Load;

function quantile(name: string, q: number, ms: number, part: Partial<Quantile> = {}): Quantile {
  const ends = { low_ns: ms * 0.9e6, high_ns: ms * 1.2e6, spread: "range" as const };
  return { name, q, value_ns: ms * 1e6, ...ends, supported: true, ...part } as Quantile;
}

function ratio(what: string, part: Partial<Ratio> = {}): Ratio {
  return {
    what, unit: "ns", value: 5.7, low: 4.6, high: 7.0, difference: 2.31e6, blocks: [5, 6], primary: true, margin: 0.05,
    outcome: "different", ...part,
  } as Ratio;
}

/** The baseline `bare` and a mesh, under one load. */
function view(latency: Quantile[], ratios: Ratio[], planes: Cell["planes"] = {}): View {
  const cell = (mesh: string, own: Cell["planes"]) => ({ mesh, load: "400rps", trials_used: [0], latency, planes: own });
  const summary = {
    baseline: "bare",
    setup: { meshes: [{ name: "bare" }, { name: "envoy" }], loads: [load] },
    answers: [{ mesh: "envoy", load: "400rps" }],
    cells: [cell("bare", {}), cell("envoy", planes)],
    comparisons: [{ mesh: "envoy", reference: "bare", load: "400rps", blocks: [0, 1], ratios }],
  };
  return { summary: summary as unknown as Summary, details: null };
}

test("the first chart states the typical run, what its ends are, and the ratio to the baseline", () => {
  const shown = view(
    [quantile("p50", 0.5, 2), quantile("p99", 0.99, 8, { spread: "interval" })],
    [ratio("p50"), ratio("p99", { value: 1.29, low: 0.77, high: 2.18, outcome: "not_resolved" })],
  );
  const [chart] = headline(shown);
  assert.ok(chart);
  const envoy = chart.description.split("; ").filter((words) => words.startsWith("envoy"));
  assert.deepEqual(envoy, [
    "envoy, Median latency: 2.00 ms, range of the trials 1.80 ms to 2.40 ms, ratio to bare x5.7 (4.6 to 7.0), different, +2.31 ms on this machine, 2 blocks",
    "envoy, 99th percentile: 8.00 ms, interval 7.20 ms to 9.60 ms, ratio to bare x1.3 (0.8 to 2.2), not resolved, +2.31 ms on this machine, 2 blocks",
  ]);
  assert.match(chart.note ?? "", /^Latency: the typical run \(the median of the trials\), with the range of the trials or its interval\. Ratio: .*\? not resolved\.$/);
  assert.deepEqual(chart.rows.map((r) => (r as { ratio: number | null }).ratio), [null, 5.7, null, 1.29]);
});

test("the first chart states that trials of a mesh reached a limit", () => {
  const shown = view([quantile("p50", 0.5, 2)], []);
  const mesh = shown.summary.cells[1];
  if (mesh) mesh.saturation = { trials: 1, found: ["the machine was 98 % busy"] };
  assert.match(headline(shown)[0]?.description ?? "", /^bare, [^;]* 2\.40 ms; envoy, [^;]* 2\.40 ms, saturated in 1 of 1 trials$/);
});

test("CPU and memory of the first chart have only ratios of the proxies", () => {
  const estimate = { value: 2, low: null, high: null, runs: [2] };
  const planes = { data_plane: { cpu_cores_per_krps: estimate, memory_bytes: estimate } as unknown as PlaneEstimate };
  const of = (ratios: Ratio[]) => headline(view([], ratios, planes))[0]?.rows.map((r) => (r as { ratio: number | null }).ratio);
  assert.deepEqual(of([ratio("cpu"), ratio("machine_cpu")]), [null, null]);
  assert.deepEqual(of([ratio("proxy_cpu", { value: 1.5 }), ratio("memory", { value: 1.1 })]), [1.5, 1.1]);
});

test("the dots of the latency chart are the supported percentiles of the typical run, without the maximum", () => {
  const none = { low_ns: null, high_ns: null, spread: null };
  const { summary } = view([quantile("p50", 0.5, 2), quantile("p90", 0.9, 4, none), quantile("p99", 0.99, 8, { supported: false }), quantile("max", 1, 9, none)], []);
  const dots = typicalRuns(summary, load).filter((d) => d.mesh === "envoy");
  assert.deepEqual(dots.map((d) => [d.name, d.ms, d.low, d.high, d.spread]), [["p50", 2, 1.8, 2.4, "range"], ["p90", 4, 4, 4, null]]);
});

test("each ratio is described with its interval and outcome, and exploratory ones are called so", () => {
  const same = ratio("p99", { value: 1.013, low: 0.98, high: 1.04, outcome: "same" });
  const of = (ratios: Ratio[]) => ratioCharts(view([], ratios))[0];
  const mixed = of([ratio("p50"), same, ratio("cpu", { primary: false }), ratio("memory")]);
  assert.equal(mixed?.description, "Ratios of the meshes, with intervals. " +
    "envoy over bare, p50: x5.7 (4.6 to 7.0), different, +2.31 ms on this machine, 2 blocks; " +
    "envoy over bare, p99: = x1.01 (0.98 to 1.04), the same within the margin, +2.31 ms on this machine, 2 blocks; " +
    "envoy over bare, CPU per request: x5.7 (4.6 to 7.0), different, +2.31 ms on this machine, 2 blocks.");
  assert.match(mixed?.note ?? "", /^Strong: the primary questions\. Thin: exploratory.*= the same within the margin\.$/);
  assert.match(of([ratio("p50", { primary: false })])?.note ?? "", /^All exploratory/);
  assert.equal(of([ratio("p50")])?.note, "");
  assert.equal(of([ratio("memory")]), undefined);
});

test("a percentile that was not answered within the timeout is not drawn as zero", () => {
  const percentile = (name: Percentile["name"], value_ns: number | null): Percentile => ({ name, q: 0.5, value_ns, supported: true });
  const shown = view([quantile("p50", 0.5, 2)], []);
  for (const cell of shown.summary.cells) {
    cell.endpoints = [
      { name: "/a", counts: { planned: 9 }, latency: [percentile("p50", 1e6), percentile("p99", null)] },
      { name: "/b", counts: { planned: 9 }, latency: [percentile("p50", null), percentile("p99", null)] },
    ] as unknown as Cell["endpoints"];
    cell.lateness = [percentile("p50", 1e3), percentile("p99", cell.mesh === "bare" ? 2e3 : null)];
  }
  assert.deepEqual(endpointCharts(shown)[0]?.rows.map((r) => [(r as { p50: number }).p50, (r as { p99: number | null }).p99]), [[1, null], [1, null]]);
  assert.deepEqual(latenessCharts(shown)[0]?.rows.map((r) => (r as { mesh: string }).mesh), ["bare"]);
});

test("a sweep draws each figure that was measured, and states what a unit adds", () => {
  const estimate = (value: number) => ({ value, low: value * 0.9, high: value * 1.1, runs: [value, value] });
  const fit = { what: "cpu", unit: "ns", slope: estimate(3000), intercept: estimate(5e4), residuals: [], lack_of_fit_p: 0.01, curved: true };
  const point = (level: string, value: number | null) => ({ level, value, mesh: "envoy", load: level, figures: [{ what: "cpu", unit: "ns", estimate: estimate(5e4) }] });
  const factor = (unit: string, points: object[], fits: object[]) => ({
    kind: "response_bytes", title: "response size", unit, levels: [{ label: "0", value: 0 }], answers: [],
    slices: [{ at: "", lines: [{ mesh: "envoy", points, fits }] }, { at: "depth=2", lines: [{ mesh: "envoy", points, fits: [] }] }],
  });
  const shown = view([], []);
  shown.summary.sweep = { design: "full", factors: [factor("KiB", [point("0", 0), point("1KiB", 1)], [fit])] } as unknown as Summary["sweep"];
  // Each chart once: the first figures of the first factor are on the first screen.
  const charts = [...firstSweepCharts(shown), ...sweepCharts(shown)];
  assert.deepEqual(charts.map((c) => c.title), ["CPU time per request by response size", "CPU time per request by response size, depth=2"]);
  assert.equal(charts[0]?.note, "envoy: +3.00 µs (2.70 µs to 3.30 µs) per KiB; dashed: not on a straight line (envoy).");
  assert.equal(charts[1]?.note, "");
  assert.match(charts[0]?.description ?? "", /envoy at 1KiB: 50\.0 microseconds \(45\.0 to 55\.0\)$/);
  assert.deepEqual(charts[0]?.rows.map((r) => (r as { x: unknown }).x), [0, 1]);
  // Levels without an order are names on the axis.
  shown.summary.sweep = { design: "full", factors: [factor("", [point("off", null), point("strict", null)], [])] } as unknown as Summary["sweep"];
  assert.deepEqual(firstSweepCharts(shown)[0]?.rows.map((r) => (r as { x: unknown }).x), ["off", "strict"]);
  assert.equal(sweepCharts(shown).length, 1);
  assert.deepEqual(sweepCharts(view([], [])), []);
});
