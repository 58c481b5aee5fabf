// Takes screenshots of a report page with a headless Chromium: light, dark, narrow, print.
//
//   node scripts/shot.mjs REPORT.html OUTPUT_DIRECTORY [--chart NAME]
//
// With --chart it takes only the named chart in light and dark, for a README. Fails if the page
// makes a network request or logs an error. CHROMIUM is the path of the browser.
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { launch, open as openReport, overflow } from "../browser/support.mjs";

const [page_path, out, flag, chart] = process.argv.slice(2);
if (!page_path || !out || (flag && flag !== "--chart")) {
  console.error("usage: node scripts/shot.mjs REPORT.html OUTPUT_DIRECTORY [--chart NAME]");
  process.exit(2);
}
await mkdir(out, { recursive: true });
const browser = await launch();
const complaints = [];
const opened = [];

async function open(colorScheme, width, height) {
  const report = await openReport(browser, resolve(page_path), { colorScheme, width, height });
  opened.push(report);
  return report.page;
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
    const wider = await overflow(phone);
    if (wider > 0) complaints.push(`the page is ${wider} pixels too wide for a phone`);
    await phone.screenshot({ path: join(out, "phone.png"), fullPage: true });
    const print = await open("dark", 1000, 800);
    await print.pdf({ path: join(out, "print.pdf"), format: "A4", printBackground: false });
  }
} finally {
  await browser.close();
}
complaints.push(...opened.flatMap((report) => report.complaints));
if (complaints.length > 0) {
  console.error(complaints.join("\n"));
  process.exit(1);
}
