// Pictures of a report page from a headless Chromium: light, dark, narrow, print.
//
//   node scripts/shot.mjs REPORT.html OUTPUT_DIRECTORY [--chart NAME]
//
// With --chart only the pictures for a README are made: the named chart in light and
// dark. Fails when the page asks for anything from the network or logs an error.
// CHROMIUM names the browser's binary.
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [page_path, out, flag, chart] = process.argv.slice(2);
if (!page_path || !out || (flag && flag !== "--chart")) {
  console.error("usage: node scripts/shot.mjs REPORT.html OUTPUT_DIRECTORY [--chart NAME]");
  process.exit(2);
}
const url = pathToFileURL(resolve(page_path)).href;
await mkdir(out, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
const complaints = [];

async function open(colorScheme, width, height) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme, deviceScaleFactor: 2, offline: true,
  });
  const page = await context.newPage();
  page.on("console", (m) => m.type() === "error" && complaints.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => complaints.push(`error: ${e.message}`));
  page.on("request", (r) => {
    if (r.url() !== url && !/^(data|blob):/.test(r.url())) complaints.push(`request: ${r.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("html[data-drawn=yes]", { timeout: 10_000 });
  return page;
}

try {
  if (chart) {
    for (const scheme of ["light", "dark"]) {
      const page = await open(scheme, 1080, 900);
      await page.addStyleTag({ content: ".tools { visibility: hidden }" }).catch(() => {});
      await page.locator(`[data-chart="${chart}"]`).screenshot({ path: join(out, `${chart}-${scheme}.png`) });
    }
  } else {
    for (const scheme of ["light", "dark"]) {
      const page = await open(scheme, 1200, 860);
      await page.screenshot({ path: join(out, `first-${scheme}.png`) });
      await page.screenshot({ path: join(out, `whole-${scheme}.png`), fullPage: true });
    }
    const phone = await open("light", 375, 800);
    const overflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (overflow > 0) complaints.push(`the page is ${overflow} pixels too wide for a phone`);
    await phone.screenshot({ path: join(out, "phone.png"), fullPage: true });
    const print = await open("dark", 1000, 800);
    await print.pdf({ path: join(out, "print.pdf"), format: "A4", printBackground: false });
  }
} finally {
  await browser.close();
}
if (complaints.length > 0) {
  console.error(complaints.join("\n"));
  process.exit(1);
}
