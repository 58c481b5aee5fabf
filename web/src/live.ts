// The current trial, on the page of a run in progress.
import { latencySoFar, liveCharts, type Moment } from "./charts/live";
import { mount } from "./figure";
import type { Summary } from "./summary";
import { significant } from "./words";

const inMilliseconds = (ns: number | null): number | null => (ns === null ? null : ns / 1e6);

/** An update from the server; `crates/tare/src/web/feed.rs` writes it. */
type Update =
  | { type: "started"; index: number; block: number; mesh: string; load: string; done: number; planned: number }
  | { type: "stage"; stage: string }
  | { type: "progress"; progress: { t_ns: number; rate_rps: number; p50_ns: number | null; p99_ns: number | null; errors: number } }
  | { type: "cores"; cores: number }
  | { type: "done" }
  | { type: "over"; report: string };

/** Shows the current trial, if the page is that of a run in progress. */
export function followRun(summary: Summary): void {
  const words = document.querySelector<HTMLElement>("[data-live]");
  const done = document.querySelector<HTMLProgressElement>("[data-live-done]");
  const place = document.querySelector<HTMLElement>("[data-live-charts]");
  if (!words || !done || !place) return;
  const grid = document.createElement("div");
  grid.className = "grid";
  place.replaceChildren(grid);

  let label = "";
  let stage = "";
  let mesh = "";
  let over = false;
  let moments: Moment[] = [];
  const draw = (): void => {
    const last = moments.at(-1);
    const figures = last ? `${significant(last.rps)} rps, ${latencySoFar(last)}` : "";
    const errors = last && last.errors > 0 ? `${last.errors} errors` : "";
    words.textContent = [label, stage, figures, errors].filter(Boolean).join(" · ");
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
        moments = [];
        label = `Block ${update.block + 1}, trial ${update.done + 1} of ${update.planned}: ${update.mesh} at ${update.load}`;
        [done.value, done.max] = [update.done, update.planned];
        chart();
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
        location.reload();
        break;
      case "over":
        over = true;
        source.close();
        place.replaceChildren();
        done.hidden = true;
        [label, stage, moments] = [`The run has ended. Report: ${update.report}`, "", []];
        break;
    }
    draw();
  });
  source.addEventListener("error", () => {
    if (!over && source.readyState === EventSource.CLOSED) words.textContent = "The connection to the run is lost.";
  });
}
