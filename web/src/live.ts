// The trial that is running, in the page of a run that still goes on.
import { liveCharts, type Moment } from "./charts/live";
import { mount } from "./figure";
import type { Summary } from "./summary";
import { milliseconds, significant } from "./words";

/** What the server tells; `crates/tare/src/web/feed.rs` writes it. */
type Told =
  | { type: "started"; index: number; block: number; mesh: string; load: string; done: number; planned: number }
  | { type: "stage"; stage: string }
  | { type: "progress"; progress: { t_ns: number; rate_rps: number; p50_ns: number; p99_ns: number; errors: number } }
  | { type: "cores"; cores: number }
  | { type: "done" }
  | { type: "over"; report: string };

/** Follows the run, where the page is one of a run that goes on. */
export function follow(summary: Summary): void {
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
    const figures = last ? `${significant(last.rps)} rps, median ${milliseconds(last.p50_ms)}, p99 ${milliseconds(last.p99_ms)}` : "";
    const errors = last && last.errors > 0 ? `${last.errors} errors` : "";
    words.textContent = [label, stage, figures, errors].filter(Boolean).join(" · ");
  };
  const chart = (): void => {
    grid.replaceChildren();
    for (const one of liveCharts(summary, mesh, moments)) mount(grid, one);
  };
  const source = new EventSource("events");
  source.addEventListener("message", (message) => {
    const told = JSON.parse(message.data as string) as Told;
    switch (told.type) {
      case "started":
        ({ mesh } = told);
        moments = [];
        label = `Block ${told.block + 1}, trial ${told.done + 1} of ${told.planned}: ${told.mesh} at ${told.load}`;
        [done.value, done.max] = [told.done, told.planned];
        chart();
        break;
      case "stage":
        ({ stage } = told);
        break;
      case "progress": {
        const { t_ns, rate_rps, p50_ns, p99_ns, errors } = told.progress;
        moments.push({ second: t_ns / 1e9, rps: rate_rps, p50_ms: p50_ns / 1e6, p99_ms: p99_ns / 1e6, errors, cores: null });
        chart();
        break;
      }
      case "cores": {
        const last = moments.at(-1);
        if (last) last.cores = told.cores;
        break;
      }
      case "done":
        // The page with the trial in it; where it was scrolled to, it stays.
        location.reload();
        break;
      case "over":
        over = true;
        source.close();
        place.replaceChildren();
        done.hidden = true;
        [label, stage, moments] = [`The run is over. Its report: ${told.report}`, "", []];
        break;
    }
    draw();
  });
  source.addEventListener("error", () => {
    if (!over && source.readyState === EventSource.CLOSED) words.textContent = "The run cannot be reached any more.";
  });
}
