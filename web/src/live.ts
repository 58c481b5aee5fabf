// The current trial, on the page of a run in progress.
import { latencySoFar, liveCharts, type Moment } from "./charts/live";
import { mount } from "./figure";
import type { Summary } from "./summary";
import { significant } from "./words";

const inMilliseconds = (ns: number | null): number | null => (ns === null ? null : ns / 1e6);

/** An update from the server; `crates/tare/src/web/feed.rs` writes it. */
type Update =
  | { type: "started"; index: number; block: number; mesh: string; load: string; done: number; planned: number }
  | { type: "left"; words: string }
  | { type: "stage"; stage: string }
  | { type: "progress"; progress: { t_ns: number; rate_rps: number; p50_ns: number | null; p99_ns: number | null; errors: number } }
  | { type: "cores"; cores: number }
  | { type: "done" }
  | { type: "over"; report: string };

/** Shows the current trial, if the page is that of a run in progress. */
export function followRun(summary: Summary): void {
  const words = document.querySelector<HTMLElement>("[data-live]");
  const done = document.querySelector<HTMLProgressElement>("[data-live-done]");
  const now = document.querySelector<HTMLElement>("[data-live-now]");
  const place = document.querySelector<HTMLElement>("[data-live-charts]");
  if (!words || !now || !done || !place) return;
  openAgain();
  const grid = document.createElement("div");
  grid.className = "grid";
  place.replaceChildren(grid);

  const title = document.title;
  let label = "";
  let left = "";
  let stage = "";
  let mesh = "";
  let over = false;
  let moments: Moment[] = [];
  const draw = (): void => {
    const last = moments.at(-1);
    const figures = last ? `${significant(last.rps)} rps, ${latencySoFar(last)}` : "";
    const errors = last && last.errors > 0 ? `${last.errors} errors` : "";
    // Readers of the page aloud announce a trial, and not each second of it.
    if (words.textContent !== label) words.textContent = label;
    now.textContent = [stage, figures, errors, left].filter(Boolean).join(" · ");
    document.title = [over ? "" : left, title].filter(Boolean).join(" · ");
  };
  const chart = (): void => {
    grid.replaceChildren();
    for (const one of liveCharts(summary, mesh, moments)) mount(grid, one);
  };
  const source = new EventSource("events");
  source.addEventListener("message", (message) => {
    const update = JSON.parse(message.data as string) as Update;
    switch (update.type) {
      case "started":
        ({ mesh } = update);
        [moments, left] = [[], ""];
        label = `Block ${update.block + 1}, trial ${update.done + 1} of ${update.planned}: ${update.mesh} at ${update.load}`;
        [done.value, done.max] = [update.done, update.planned];
        chart();
        break;
      case "left":
        left = update.words;
        break;
      case "stage":
        ({ stage } = update);
        break;
      case "progress": {
        const { t_ns, rate_rps, p50_ns, p99_ns, errors } = update.progress;
        moments.push({ second: t_ns / 1e9, rps: rate_rps, p50_ms: inMilliseconds(p50_ns), p99_ms: inMilliseconds(p99_ns), errors, cores: null });
        chart();
        break;
      }
      case "cores": {
        const last = moments.at(-1);
        if (last) last.cores = update.cores;
        break;
      }
      case "done":
        // The new page includes the trial. The browser keeps the scroll position.
        keepOpen();
        location.reload();
        break;
      case "over":
        over = true;
        source.close();
        place.replaceChildren();
        done.hidden = true;
        [label, stage, left, moments] = [`The run has ended. Report: ${update.report}`, "", "", []];
        break;
    }
    draw();
  });
  source.addEventListener("error", () => {
    if (!over && source.readyState === EventSource.CLOSED) words.textContent = "The connection to the run is lost.";
  });
}

const OPEN = "tare-open";

/** The folded parts of the page that are open, by their order. */
function keepOpen(): void {
  const open = [...document.querySelectorAll("details")].flatMap((part, i) => (part.open ? [i] : []));
  sessionStorage.setItem(OPEN, JSON.stringify(open));
}

/** Opens the parts that were open before the page was loaded again. */
function openAgain(): void {
  const open = JSON.parse(sessionStorage.getItem(OPEN) ?? "[]") as number[];
  document.querySelectorAll("details").forEach((part, i) => {
    if (open.includes(i)) part.open = true;
  });
}
