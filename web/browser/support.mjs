// Starts a headless Chromium, and opens pages that record errors, warnings, dialogs and requests.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Path of the browser: CHROMIUM, or the first of the usual names in PATH. */
export function browserPath() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of NAMES) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        continue;
      }
    }
  }
  return null;
}

export async function launch() {
  const executablePath = browserPath();
  if (!executablePath) {
    throw new Error("found no Chromium: install it (Debian: apt-get install chromium), or set CHROMIUM to the path of its binary");
  }
  return chromium.launch({
    executablePath,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
}

/** Opens a report. Returns the page and its `complaints`: errors, warnings, dialogs and network requests. A test requires
 * that they are empty. */
export async function open(browser, file, { width = 1200, height = 860, colorScheme = "light", hash = "" } = {}) {
  const url = pathToFileURL(file).href;
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme, deviceScaleFactor: 2, offline: true, acceptDownloads: true,
  });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => complaints.push(`error: ${e.message}`));
  page.on("dialog", (d) => {
    complaints.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on("request", (r) => {
    if (r.url().split("#")[0] !== url && !/^(data|blob):/.test(r.url())) complaints.push(`request: ${r.url()}`);
  });
  await page.goto(url + hash);
  await page.waitForSelector("html[data-drawn=yes]", { timeout: 20_000 });
  return { page, complaints };
}

/** Returns how much wider than the window the page is, in pixels. */
export function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}
