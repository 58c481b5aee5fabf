// Bundles the page's script and style into the directory given: page.js, page.css,
// page.js.integrity for the content security policy, and analysis.wasm.z64, the
// analysis as it lies in the page.
import { deflateSync } from "node:zlib";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const [out, analysis] = process.argv.slice(2);
if (!out) {
  console.error("usage: node scripts/build.mjs OUTPUT_DIRECTORY [ANALYSIS.wasm]");
  process.exit(2);
}

await build({
  absWorkingDir: web,
  entryPoints: { page: "src/main.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
});
await build({
  absWorkingDir: web,
  entryPoints: { page: "src/page.css" },
  outdir: out,
  bundle: true,
  minify: true,
  logLevel: "warning",
});

// Inside a script element nothing may look like its end.
const path = join(out, "page.js");
const script = (await readFile(path, "utf8"))
  .replaceAll("</script", "<\\/script")
  .replaceAll("<!--", "<\\!--")
  .trim();
await writeFile(path, script);
const hash = createHash("sha256").update(script, "utf8").digest("base64");
await writeFile(join(out, "page.js.integrity"), `sha256-${hash}`);

const packed = analysis ? deflateSync(await readFile(analysis), { level: 9 }) : Buffer.alloc(0);
await writeFile(join(out, "analysis.wasm.z64"), packed.toString("base64"));
