// The page of a history in a real browser: the patrols of 2018 and of ten releases, and an entry with hostile names.
// `make web-browser-test` makes it in REPORTS.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, open, overflow } from "./support.mjs";

const site = join(process.env.REPORTS ?? "", "history", "index.html");
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function on(options, act) {
  const { page, complaints } = await open(browser, site, options);
  try {
    await act(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.context().close();
  }
}

const row = (page, build) => page.locator("tr[data-e]:visible").filter({ has: page.getByRole("rowheader", { name: build, exact: true }) });

/** The visible cells of a table, row by row. */
const cells = (table) => table.locator("tr").evaluateAll((rows) => rows.map((r) => [...r.cells].filter((c) => c.offsetParent).map((c) => c.textContent)));

test("without scripts, figures can be chosen", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(pathToFileURL(site).href);
  const shown = () => page.locator(".view:visible h3").allTextContents();
  assert.deepEqual(await shown(), ["Median latency at 60rps", "Median latency at 60rps", "Maximum throughput, closed loop at 60 clients"]);
  await page.locator("label", { hasText: "memory" }).first().click();
  assert.equal((await shown())[0], "Memory of the proxies at 60rps");
  assert.equal(await page.locator("[data-filters]:visible").count(), 0);
  await context.close();
});

test("filters leave one plan, one host or one mesh", async () => {
  await on({}, async (page) => {
    const headings = () => page.locator(".group:visible h2").allTextContents();
    assert.equal((await headings()).length, 3);
    const filter = (name) => page.getByRole("combobox", { name });
    await filter("plan").selectOption("patrol");
    assert.match((await headings()).join("|"), /^Plan patrol on AMD EPYC, [^|]*$/);
    await filter("mesh").selectOption("envoy/mtls");
    const table = page.locator("table:visible").first();
    assert.deepEqual((await cells(table))[0], ["build", "time, UTC", "bare", "envoy/mtls", "envoy/mtls / bare", "verdict"]);
    assert.deepEqual((await cells(table))[1], ["1.36.2", "2026-11-25 09:50", "1.31 ms", "4.13 ms", "x3.03 (2.91 to 3.16)", "no change found"]);
    assert.equal(await page.locator(".timeline:visible g:visible").count(), 1);
    // The address keeps the state.
    await page.reload();
    await page.waitForSelector("html[data-drawn=yes]");
    assert.equal((await headings()).length, 1);
    assert.equal(await filter("mesh").inputValue(), "envoy/mtls");
    await filter("plan").selectOption("");
    await filter("mesh").selectOption("");
    await filter("host").selectOption("IBM Container Service");
    assert.deepEqual(await headings(), ["Plan Acme Air on IBM Container Service"]);
  });
});

// Computed by hand from the two files in data/history/envoy-2026.
const EXPECTED = [
  ["", "envoy", "envoy/mtls", "bare"],
  ["p50, relative to bare", "x1.00 (0.96 to 1.04)", "x1.00 (0.96 to 1.04)", ""],
  ["p99, relative to bare", "x0.95 (0.87 to 1.03)", "x0.97 (0.88 to 1.06)", ""],
  ["CPU per request, relative to bare", "x0.98 (0.94 to 1.03)", "x0.99 (0.94 to 1.04)", ""],
  ["p50", "x0.931", "x0.933", "x0.912"],
  ["p99", "x0.841", "x0.940", "x0.948"],
  ["CPU per request", "x0.984", "x0.985", "x0.998"],
  ["proxy memory", "x1.10", "x1.10", ""],
];

test("two selected builds are compared", async () => {
  await on({ height: 1600 }, async (page) => {
    const panel = page.getByRole("complementary");
    await row(page, "1.36.4").click();
    assert.equal(await panel.getByRole("heading").first().textContent(), "1.36.4");
    assert.match(await panel.locator("dl").textContent(), /2026-11-25 07:42 UTC.*envoy@1\.36\.4: 1\.36\.4 .*sha256:5a398095d8c1….*runs\/patrol\/patrol-1\.36\.4/s);
    assert.deepEqual((await cells(panel.locator("table")))[1], ["p50", "1.27 ms", "3.61 msx2.87 (2.80 to 2.94)", "3.74 msx3.00 (2.92 to 3.09)"]);
    await row(page, "1.40.0").click();
    assert.equal(await panel.getByRole("heading").first().textContent(), "1.40.0 compared with 1.36.4");
    assert.deepEqual(await cells(panel.locator("table")), EXPECTED);
    assert.match(await panel.textContent(), /envoy1\.36\.4 \(tested with 1\.40\.0\) sha256:5a398095d8c1…→ 1\.40\.0 sha256:8aa137a7d009…/);
    assert.equal(await page.locator(".view:visible circle.selected").count(), 4);
    await page.reload();
    await page.waitForSelector("html[data-drawn=yes]");
    assert.deepEqual(await cells(panel.locator("table")), EXPECTED);
    await panel.getByRole("button", { name: "Close" }).click();
    assert.ok(!(await panel.isVisible()));
    assert.equal(await page.locator("[aria-selected]").count(), 0);
  });
});

test("builds are selected with the keyboard, on the timeline and in the list of changes", async () => {
  await on({ height: 1600 }, async (page) => {
    const title = () => page.getByRole("complementary").getByRole("heading").first().textContent();
    const grid = page.getByRole("grid").first();
    assert.equal(await grid.locator("tr[tabindex='0']").count(), 1, "one stop of the Tab key");
    await grid.locator("tr[tabindex='0']").focus();
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    assert.equal(await title(), "1.39.3");
    for (const key of ["End", " "]) await page.keyboard.press(key);
    assert.equal(await title(), "1.39.3 compared with 1.36.2");
    await page.keyboard.press("Escape");
    assert.ok(!(await page.getByRole("complementary").isVisible()));
    await page.locator(".timeline:visible circle[data-e]").nth(3).click();
    assert.equal(await title(), "1.37.0");
    await page.getByRole("link", { name: "0.8.0-pre20180404-09-15" }).click();
    assert.equal(await title(), "0.8.0-pre20180404-09-15");
    const selected = page.locator("tr[aria-selected]:visible");
    const covered = async () => (await selected.last().boundingBox()).y > (await page.locator(".selection").boundingBox()).y;
    assert.ok(!(await covered()));
    await page.locator("tr[data-e]:visible").last().click();
    assert.ok(!(await covered()), "the panel covers the selected row");
  });
});

test("hostile names are text, and only addresses of the web are links", async () => {
  await on({ hash: "#build=hostile-entry", height: 1600 }, async (page) => {
    const panel = page.getByRole("complementary");
    assert.equal(await panel.getByRole("heading").first().textContent(), "<b onclick=alert(1)>");
    assert.match(await panel.textContent(), /<img src=x onerror=alert\(1\)>.*<script>alert\(1\)<\/script>: 1.*javascript:alert\(1\)/s);
    const links = await panel.locator("a").evaluateAll((all) => all.map((a) => a.href));
    assert.deepEqual(links, ["https://ci.example/reports/a/report.html"]);
    assert.equal(await page.locator("img").count(), 0);
  });
});

test("a served page reloads after a change, and keeps its selection", async () => {
  // `tare history --serve` differs from `--site` in these two places.
  const html = (await readFile(site, "utf8"))
    .replace("<body>", "<body data-live>")
    .replace("form-action 'none'; ", "form-action 'none'; connect-src 'self'; ");
  let loads = 0;
  let listening;
  const listener = new Promise((ready) => (listening = ready));
  const server = createServer((request, response) => {
    const events = request.url === "/events";
    if (!events) loads += 1;
    response.writeHead(200, { "content-type": events ? "text/event-stream" : "text/html; charset=utf-8" });
    if (!events) response.end(html);
    else if (loads === 1) listening(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForSelector("html[data-drawn=yes]");
    await row(page, "1.36.4").click();
    const reloaded = page.waitForEvent("load");
    (await listener).write('data: {"type":"done"}\n\n');
    await reloaded;
    assert.equal(loads, 2);
    await page.getByRole("complementary").getByRole("heading", { name: "1.36.4" }).waitFor();
    await page.close();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("every control has a name", async () => {
  await on({ hash: "#build=hostile-entry" }, async (page) => {
    const nameless = await page.$$eval("button, input, select, a", (all) =>
      all.filter((e) => !(e.textContent.trim() || e.labels?.[0]?.textContent.trim())).map((e) => e.outerHTML));
    assert.deepEqual(nameless, []);
  });
});

test("the page fits every screen width", async () => {
  for (const [width, colorScheme] of [[320, "light"], [375, "dark"], [768, "light"], [1600, "dark"]]) {
    for (const hash of ["", "#build=patrol-1.36.4-2026-11-25T07-42-34&build=patrol-1.40.0-2026-11-25T08-49-24"]) {
      await on({ width, colorScheme, hash }, async (page) => {
        assert.ok((await overflow(page)) <= 0, `${width}: ${await overflow(page)} pixels too wide`);
      });
    }
  }
});
