// Draws the charts of the report page from the embedded data.
import { calculator } from "./calculator";
import { distributions } from "./charts/distributions";
import { endpointCharts } from "./charts/endpoints";
import { headline } from "./charts/headline";
import { latenessCharts } from "./charts/lateness";
import { latency } from "./charts/latency";
import { ratioCharts } from "./charts/ratios";
import { cpu, memory } from "./charts/resources";
import { scalingCharts } from "./charts/scaling";
import { firstSweepCharts, sweepCharts } from "./charts/sweep";
import { showTrial, time } from "./charts/time";
import type { Details } from "./details";
import { followRun } from "./live";
import { drawPanel, type Panel } from "./panel";
import type { Summary } from "./summary";
import { trialFilter } from "./trials";
import { unpackJson } from "./unpack";
import type { View } from "./view";

const PANELS: Record<string, Panel> = {
  headline: { charts: headline },
  "sweep-first": { charts: firstSweepCharts },
  sweep: { charts: sweepCharts },
  latency,
  ratios: { charts: ratioCharts },
  cpu,
  memory,
  scaling: { charts: scalingCharts },
  endpoints: { charts: endpointCharts },
  time,
  distributions,
  lateness: { charts: latenessCharts },
};

function draw(view: View): void {
  for (const place of document.querySelectorAll<HTMLElement>("[data-chart]")) {
    const panel = PANELS[place.dataset["chart"] ?? ""];
    if (panel) drawPanel(place, panel, view);
  }
}

/** Shows the trial in the fragment of the page's address, such as `#trial-7`. */
function followAddress(view: View): void {
  const index = /^#trial-(\d+)$/.exec(location.hash)?.[1];
  if (index === undefined) return;
  const place = document.querySelector<HTMLElement>('[data-chart="time"]');
  if (!place || !showTrial(view, Number(index))) return;
  drawPanel(place, time, view);
  document.getElementById("time")?.scrollIntoView();
}

async function start(): Promise<void> {
  const summary = await unpackJson<Summary>("summary");
  if (!summary) return;
  const view: View = { summary, details: null };
  view.details = await unpackJson<Details>("details").catch(() => null);
  draw(view);
  const form = document.querySelector<HTMLElement>("[data-calculator]");
  if (form) calculator(form, summary);
  document.querySelector<HTMLElement>("[data-trials]")?.append(trialFilter());
  addEventListener("hashchange", () => followAddress(view));
  followAddress(view);
  followRun(view.summary);
  // Open all tables for printing, except the published figures, which are the same in every report.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll<HTMLDetailsElement>("details:not(.publication)")) folded.open = true;
  });
}

void start().finally(() => {
  document.documentElement.dataset["drawn"] = "yes";
});
