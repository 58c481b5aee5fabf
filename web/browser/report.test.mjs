// The report page in a real browser. REPORTS is a folder with run directories
// `quick`, `doubts` and `hostile` and their reports; `make web-browser-test` makes it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, overflow } from "./support.mjs";

const reports = process.env.REPORTS;
assert.ok(reports, "REPORTS is not set: run make web-browser-test");
const report = (name) => join(reports, name, "report.html");

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Opens a report and runs `act` on it. Fails if the page has complaints; see `open`. */
async function on(name, options, act) {
  const { page, complaints } = await open(browser, report(name), options);
  try {
    await act(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.context().close();
  }
}

const CHARTS = ["headline", "latency", "ratios", "cpu", "memory", "scaling", "endpoints", "time", "distributions", "lateness"];

test("every chart has a description and can be saved as SVG and CSV", async () => {
  await on("quick", {}, async (page) => {
    const names = await page.$$eval("[data-chart]", (places) => places.map((p) => p.dataset.chart));
    assert.deepEqual(names, CHARTS);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.locator('[data-chart="headline"]').getByText("CSV", { exact: true }).click(),
    ]);
    assert.equal(download.suggestedFilename(), "tare-at-a-glance.csv");
    assert.match(await readFile(await download.path(), "utf8"), /^figure,mesh,value,low,high,spread,words,ratio,ratio_low,ratio_high,outcome\r\n/);
    // Browsers limit downloads in a row, so the others are intercepted.
    await page.evaluate(() => {
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        globalThis.caught = blob.text();
        return make(blob);
      };
      HTMLAnchorElement.prototype.click = function () {
        globalThis.caughtName = this.download;
      };
    });
    for (const name of CHARTS) {
      const figures = page.locator(`[data-chart="${name}"] figure`);
      assert.ok((await figures.count()) > 0, `${name}: no figure`);
      for (const figure of await figures.all()) {
        const svg = figure.locator(".drawing > svg");
        const words = await svg.getAttribute("aria-label");
        assert.equal(await svg.getAttribute("role"), "img");
        assert.match(words ?? "", /\d/, `${name}: its description has no figure`);
        assert.ok(!/NaN|undefined|Infinity/.test(await figure.innerHTML()), `${name}: not a number`);
        const csv = await saved(page, figure, "CSV");
        assert.ok(csv.text.split("\r\n").length > 2, `${csv.name}: no rows`);
        assert.ok(!/NaN|undefined|Infinity/.test(csv.text), `${csv.name}: not a number`);
        const drawing = await saved(page, figure, "SVG");
        const whole = await page.evaluate((text) => {
          const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
          return parsed.querySelector("parsererror") === null && !/var\(--(ink|quiet|grid|paper|mesh|invalid)/.test(text);
        }, drawing.text);
        assert.ok(whole, `${drawing.name} is not standalone`);
      }
    }
  });
});

async function saved(page, figure, kind) {
  await figure.getByText(kind, { exact: true }).click();
  return page.evaluate(async () => ({ name: globalThis.caughtName, text: await globalThis.caught }));
}

test("the page shows the command that excludes trials, and then the excluded trials", async () => {
  const command = async (name) => {
    let text;
    await on(name, {}, async (page) => {
      text = await page.locator("pre.copy").textContent();
    });
    return text;
  };
  assert.match(await command("quick"), /^tare report \S+ --exclude 3,7$/);
  // Written by `tare report --exclude 5,16`.
  assert.match(await command("quick-without-5-16"), /^tare report \S+ --exclude 5,16$/);
  await on("quick-without-5-16", {}, async (page) => {
    for (const index of [5, 16]) {
      assert.match(await page.locator(`tr[data-trial="${index}"]`).getAttribute("class"), /unused/);
    }
    await page.getByRole("searchbox").fill("excluded on request");
    const rows = page.locator("tr[data-trial]:visible");
    assert.deepEqual(await rows.evaluateAll((all) => all.map((r) => r.dataset.trial)), ["5", "16"]);
    const trials = await page.locator('[data-chart="time"] option').allTextContents();
    assert.deepEqual(trials.filter((words) => /excluded on request/.test(words)).map((words) => words.split(":")[0]), ["5", "16"]);
  });
});

const LABEL = /^(= |\? )?x[\d.]+( \([\d.]+ to [\d.]+\))?$/;

test("each ratio has a label, and a dot that is filled only if it is different", async () => {
  for (const [width, colorScheme] of [[1200, "light"], [320, "dark"]]) {
    await on("doubts", { width, colorScheme }, async (page) => {
      const drawings = page.locator('[data-chart="ratios"] .drawing > svg');
      assert.equal(await drawings.count(), 2, "a chart for each load");
      for (const drawing of await drawings.all()) {
        const labels = (await drawing.locator("text").allTextContents()).filter((text) => LABEL.test(text) && !/^x[\d.]+$/.test(text));
        const described = await drawing.getAttribute("aria-label");
        assert.equal(labels.length, 9, "three figures of three pairs");
        for (const label of labels) assert.ok(described.includes(`: ${label}, `), `${label} is not in the description`);
        const dots = await drawing.locator("circle").evaluateAll((all) => all.map((c) => [getComputedStyle(c).fill, getComputedStyle(c).stroke]));
        const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const hollow = dots.filter(([fill]) => fill === paper).length;
        assert.equal(dots.length, 9);
        assert.equal(hollow, labels.filter((label) => /^[=?]/.test(label)).length);
        assert.ok(dots.every(([fill, stroke]) => fill === paper || fill === stroke), "a filled dot has the colour of its mesh");
      }
      // p50 and p99 of envoy/mtls over envoy.
      const unresolved = (await drawings.nth(1).locator("text").allTextContents()).filter((text) => /^\? x/.test(text));
      assert.equal(unresolved.length, 2);
    });
  }
});

test("the box of a ratio gives its outcome, the difference and the blocks in words", async () => {
  await on("doubts", {}, async (page) => {
    const drawing = page.locator('[data-chart="ratios"] .drawing > svg').nth(1);
    const strong = drawing.locator("circle").first();
    await strong.hover();
    const box = drawing.locator('[aria-label="tip"]').filter({ hasText: "this machine" });
    await box.waitFor();
    const text = (await box.locator("tspan").allTextContents()).join("\n");
    assert.match(text, /envoy over bare\n.*p50\n.*x2\.3 \(2\.0 to 2\.7\)\n.*different\n.*\+\d+ µs on this machine\n.*\d blocks\n.*primary question/);
  });
});

test("the first chart has the ratio to the baseline beside each latency", async () => {
  for (const width of [1200, 768, 320]) {
    await on("doubts", { width }, async (page) => {
      const drawing = page.locator('[data-chart="headline"] .drawing > svg');
      const texts = await drawing.locator("text").allTextContents();
      assert.equal(texts.filter((text) => text === "ratio to bare").length, 2);
      assert.equal(texts.filter((text) => LABEL.test(text)).length, 4, "two figures of two meshes");
      assert.match(await drawing.getAttribute("aria-label"), /envoy, Median latency: 1\.11 ms, range of the trials .* to .*, ratio to bare x2\.3 \(2\.0 to 2\.7\), different/);
      assert.match(await page.locator('[data-chart="headline"] .note').textContent(), /the typical run \(the median of the trials\), with the range of the trials\./);
    });
  }
});

test("the list of trials can be filtered and links to each trial over time", async () => {
  await on("doubts", { hash: "#trial-7" }, async (page) => {
    const trial = page.locator('[data-chart="time"] select');
    assert.equal(await trial.inputValue(), "7");
    await page.getByRole("searchbox").fill("suspect");
    const rows = page.locator("tr[data-trial]:visible");
    assert.deepEqual(await rows.evaluateAll((all) => all.map((r) => r.dataset.trial)), ["4"]);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("searchbox").fill("block run again");
    assert.equal(await rows.count(), 0);
    await page.getByRole("searchbox").fill("");
    await page.locator('tr[data-trial="12"] a').click();
    await page.locator('[data-chart="time"] svg[aria-label*="trial 12: "]').first().waitFor();
    assert.equal(await trial.inputValue(), "12");
  });
});

test("measures and distributions can be chosen with the keyboard", async () => {
  await on("quick", {}, async (page) => {
    const cpu = page.locator('[data-chart="cpu"]');
    const label = () => cpu.locator("svg").first().getAttribute("aria-label");
    const before = await label();
    await cpu.getByRole("button", { name: "per 1,000 rps" }).focus();
    await page.keyboard.press("Enter");
    assert.notEqual(await label(), before);
    assert.match(await label(), /cores per 1,000 rps/);
    const pair = page.locator('[data-chart="distributions"]');
    await pair.getByRole("combobox").nth(1).selectOption({ label: "envoy at 200rps" });
    assert.match(await pair.locator("svg").first().getAttribute("aria-label"), /B, envoy at 200rps/);
  });
});

test("published figures appear on request, with a label, and are in the CSV", async () => {
  await on("quick", {}, async (page) => {
    await page.evaluate(() => {
      URL.createObjectURL = (blob) => {
        globalThis.caught = blob.text();
        return "about:blank";
      };
      HTMLAnchorElement.prototype.click = function () {
        globalThis.caughtName = this.download;
      };
    });
    for (const [chart, from, figure] of [
      ["latency", /Linkerd, May 2021/, /linkerd 2\.10\.2.*17\.0 ms/],
      ["latency", /Kinvolk, May 2019/, /istio 1\.1\.6 tuned.*643 ms/],
      ["cpu", /Kinvolk, May 2019/, /istio 1\.1\.6 tuned.*1\.72/],
      ["memory", /Kinvolk, May 2019/, /linkerd edge-19\.5\.2.*493/],
    ]) {
      const panel = page.locator(`[data-chart="${chart}"]`);
      const drawing = panel.locator(".drawing > svg").first();
      const box = panel.getByRole("checkbox", { name: "published on other machines" });
      const source = panel.getByRole("combobox");
      if (!(await box.isChecked())) {
        assert.ok(!/published/.test((await drawing.getAttribute("aria-label")) + (await drawing.textContent())), "shown by default");
        assert.ok(!/published/.test((await saved(page, panel.locator("figure").first(), "CSV")).text));
        assert.ok(!(await source.isVisible()));
        // With the keyboard only.
        await box.focus();
        await page.keyboard.press("Space");
      }
      const options = await source.locator("option").allTextContents();
      await source.selectOption(options.find((words) => from.test(words)));
      assert.match(await drawing.textContent(), /published on other machines:\s*(kinvolk-2019|linkerd-2021-05) at \d+ rps/);
      assert.match(await drawing.getAttribute("aria-label"), figure);
      const { text } = await saved(page, panel.locator("figure").first(), "CSV");
      assert.match(text, /^source,/);
      assert.match(text, /\r\nthis run,/);
      assert.match(text, /\r\npublished on other machines: /);
      assert.ok(!/NaN|undefined|Infinity/.test((await panel.innerHTML()) + text), `${chart}: not a number`);
    }
    const memory = page.locator('[data-chart="memory"]');
    await memory.getByRole("button", { name: "per process" }).click();
    assert.match(await memory.locator("svg").first().getAttribute("aria-label"), /a proxy: 44\.8 MiB per process/);
    await memory.getByRole("checkbox").uncheck();
    assert.ok(!/published/.test(await memory.locator("svg").first().textContent()));
  });
});

test("the page shows the instrument error", async () => {
  await on("quick", {}, async (page) => {
    const table = page.locator('section[aria-labelledby="instrument"] table').first();
    assert.match(await table.textContent(), /added p99/);
    assert.match(await table.textContent(), /µs/);
  });
});

test("hostile names are shown as text", async () => {
  await on("hostile", {}, async (page) => {
    const count = await page.evaluate(() => [document.images.length, document.querySelectorAll("main script").length]);
    assert.deepEqual(count, [0, 0]);
    assert.ok((await page.locator("main").innerText()).includes("<img src=x onerror=alert(1)>"));
  });
});

test("the page fits every screen width and printed paper", async () => {
  for (const [width, colorScheme] of [[320, "light"], [375, "dark"], [768, "light"], [1600, "dark"]]) {
    for (const name of ["quick", "hostile"]) {
      await on(name, { width, colorScheme }, async (page) => {
        assert.ok((await overflow(page)) <= 0, `${name} at ${width}: ${await overflow(page)} pixels too wide`);
      });
    }
  }
  await on("doubts", { width: 794, colorScheme: "dark" }, async (page) => {
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.ok((await overflow(page)) <= 0, `${await overflow(page)} pixels too wide for paper`);
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    assert.ok(await page.locator('section[aria-labelledby="latency"] table').first().isVisible(), "figures are hidden on paper");
    assert.ok(!(await page.locator(".tools").first().isVisible()));
    const shown = (cells) => cells.filter((c) => getComputedStyle(c).display !== "none").length;
    const heads = await page.locator("table.trials thead th").evaluateAll(shown);
    const figures = await page.locator("table.trials tr[data-trial]").first().locator("td").evaluateAll(shown);
    assert.equal(heads, figures, "the columns of the trials do not match their headings");
  });
});

test("text and mesh colours have enough contrast", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await on("doubts", { colorScheme }, async (page) => {
      const faint = await page.evaluate(() => {
        const probe = document.body.appendChild(document.createElement("i"));
        const rgb = (colour) => {
          probe.style.color = colour;
          return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map((c) => {
            const x = c / 255;
            return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
          });
        };
        const luminance = (colour) => rgb(colour).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const ratio = (a, b) => {
          const [x, y] = [luminance(a), luminance(b)].sort((m, n) => n - m);
          return (x + 0.05) / (y + 0.05);
        };
        const ground = (element) => {
          for (let e = element; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (!/, 0\)$|transparent/.test(colour)) return colour;
          }
          return "white";
        };
        const weak = [];
        for (const element of document.querySelectorAll("body *:not(script, svg *, i)")) {
          const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
          if (!own) continue;
          const found = ratio(getComputedStyle(element).color, ground(element));
          if (found < 4.5) weak.push(`${element.tagName} ${element.className}: ${found.toFixed(2)}`);
        }
        for (let mesh = 0; mesh < 8; mesh += 1) {
          const found = ratio(`var(--mesh-${mesh})`, "var(--paper)");
          if (found < 3) weak.push(`mesh ${mesh}: ${found.toFixed(2)}`);
        }
        return [...new Set(weak)];
      });
      assert.deepEqual(faint, []);
    });
  }
});

test("every control has a name", async () => {
  await on("doubts", {}, async (page) => {
    const nameless = await page.$$eval("button, input, select, a", (all) =>
      all.filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent.trim())).map((e) => e.outerHTML));
    assert.deepEqual(nameless, []);
  });
});
