import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

test("the committed bundle in dist is built from the sources (make web)", () => {
  const out = mkdtempSync(join(tmpdir(), "tare-web-dist-"));
  try {
    const built = spawnSync(process.execPath, ["scripts/build.mjs", out], { encoding: "utf8" });
    assert.equal(built.status, 0, built.stderr);
    assert.deepEqual(readdirSync("dist").sort(), readdirSync(out).sort());
    for (const file of readdirSync(out)) {
      assert.ok(readFileSync(join(out, file)).equals(readFileSync(join("dist", file))), `dist/${file} is out of date: make web`);
    }
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
});
