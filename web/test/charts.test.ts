import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketMs, histogram } from "../src/buckets";
import { type PlaneRow, planeRows, reach } from "../src/charts/resources";
import { logDomain, logTicks } from "../src/charts/layout";
import type { TrialSeries } from "../src/details";
import type { Load, PlaneEstimate, Summary } from "../src/summary";

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
