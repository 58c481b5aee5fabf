// The page of a run in progress, with a server that sends the updates of `tare run --web`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { launch } from "./support.mjs";

test("the live page shows the current trial and reloads after it", async () => {
  const html = await readFile(join(process.env.REPORTS ?? "", "quick", "live.html"));
  let loads = 0;
  let listener;
  const server = createServer((request, response) => {
    if (request.url === "/events") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      listener = response;
      response.write(": hello\n\n");
    } else {
      loads += 1;
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" });
      response.end(html);
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const complaints = [];
    page.on("console", (m) => m.type() === "error" && complaints.push(m.text()));
    page.on("pageerror", (e) => complaints.push(e.message));
    const send = (update) => listener.write(`data: ${JSON.stringify(update)}\n\n`);
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForSelector("html[data-drawn=yes]");
    const words = page.locator("[data-live]");
    send({ type: "started", index: 4, block: 0, mesh: "envoy", load: "200rps", done: 4, planned: 18 });
    send({ type: "left", words: "2m05s left" });
    send({ type: "stage", stage: "measuring" });
    for (const second of [-1, 0, 1, 2]) {
      send({ type: "progress", progress: { t_ns: second * 1e9, rate_rps: 200, p50_ns: 1.5e6, p99_ns: 4e6, errors: 0, lateness_p50_ns: 1 } });
      send({ type: "cores", cores: 0.25 });
    }
    await page.locator("[data-live-charts] figure").nth(2).waitFor();
    assert.equal(await words.textContent(), "Block 1, trial 5 of 18: envoy at 200rps");
    const now = await page.locator("[data-live-now]").textContent();
    assert.match(now, /^measuring · 200 rps, median 1\.50 ms, p99 4\.00 ms · 2m05s left$/);
    assert.match(await page.title(), /^2m05s left · /);
    const folded = page.locator("details").first();
    await folded.evaluate((part) => { part.open = true; });
    assert.equal(await page.locator("[data-live-charts] figure").count(), 3);
    send({ type: "done" });
    const gone = listener;
    while (loads < 2 || listener === gone) await new Promise((resume) => setTimeout(resume, 20));
    assert.equal(await folded.evaluate((part) => part.open), true);
    send({ type: "over", report: "runs/x/report.html" });
    await page.getByText("The run has ended. Report: runs/x/report.html").waitFor();
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
