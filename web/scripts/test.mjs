// Bundles each test and runs it with Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const tests = (await readdir(join(web, "test"))).filter((name) => name.endsWith(".test.ts"));
if (tests.length === 0) {
  console.error("found no test/*.test.ts");
  process.exit(1);
}
const out = await mkdtemp(join(tmpdir(), "tare-web-test-"));
try {
  await build({
    absWorkingDir: web,
    entryPoints: tests.map((name) => join("test", name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const files = tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  const run = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  process.exitCode = run.status ?? 1;
} finally {
  await rm(out, { recursive: true, force: true });
}
