import assert from "node:assert/strict";
import { test } from "node:test";
import { spreadLabels } from "../src/charts/layout";
import { groupsByScale } from "../src/charts/overhead";
import { csv } from "../src/csv";
import { type CurvePoint, nines, overheads, percentile, splitBySupport } from "../src/data";
import type { Cell } from "../src/summary";
import { milliseconds, significant } from "../src/words";

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

test("a percentile with much wider intervals has its own scale", () => {
  const row = (name: string, ms: number, half: number) => ({
    mesh: "m", percentile: name, ms, low: ms - half, high: ms + half, distinct: true,
  });
  const groups = groupsByScale([row("p50", 1, 0.1), row("p99", 2, 0.5), row("p99.9", 1, 40)]);
  assert.deepEqual(groups.map((g) => g.map((r) => r.percentile)), [["p50", "p99"], ["p99.9"]]);
});

test("a difference with too few responses is not drawn", () => {
  const difference = (what: string, supported: boolean) => ({
    what, supported, value: 2e6, low: 1e6, high: 3e6, ratio: 1, pairs: [], distinction: "higher" as const,
  });
  const latency = [difference("p50", true), difference("p99", false)];
  const cell = { mesh: "m", overhead: { blocks: [0], latency, resources: [] } } as unknown as Cell;
  assert.deepEqual(overheads([cell]).map((r) => [r.percentile, r.ms]), [["p50", 2]]);
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
