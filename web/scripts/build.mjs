// Bundles the scripts and styles of the pages into the directory given: page.js, page.css, and
// page.js.integrity for the content security policy; start.js, which runs page.js; the same for history.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const [out] = process.argv.slice(2);
if (!out) {
  console.error("usage: node scripts/build.mjs OUTPUT_DIRECTORY");
  process.exit(2);
}

await build({
  absWorkingDir: web,
  entryPoints: { page: "src/main.ts", start: "src/start.ts", history: "src/history.ts" },
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
  entryPoints: { page: "src/page.css", history: "src/history.css" },
  outdir: out,
  bundle: true,
  minify: true,
  logLevel: "warning",
});

// A script must not contain the end of its own element.
for (const name of ["page", "start", "history"]) {
  const path = join(out, `${name}.js`);
  const script = (await readFile(path, "utf8"))
    .replaceAll("</script", "<\\/script")
    .replaceAll("<!--", "<\\!--")
    .trim();
  await writeFile(path, script);
  const hash = createHash("sha256").update(script, "utf8").digest("base64");
  await writeFile(`${path}.integrity`, `sha256-${hash}`);
}
