// Draws the charts of the report page from the data embedded in it, and again when
// the reader leaves trials out.
import { analyse } from "./analysis";
import { distributions } from "./charts/distributions";
import { endpointCharts } from "./charts/endpoints";
import { headline } from "./charts/headline";
import { latenessCharts } from "./charts/lateness";
import { latency } from "./charts/latency";
import { overheadCharts } from "./charts/overhead";
import { cpu, memory } from "./charts/resources";
import { scalingCharts } from "./charts/scaling";
import { showTrial, time } from "./charts/time";
import type { Details } from "./details";
import { follow as followRun } from "./live";
import { drawPanel, type Panel } from "./panel";
import type { Summary } from "./summary";
import { type TrialTools, trialTools } from "./trials";
import { unpackJson } from "./unpack";
import type { View } from "./view";

const PANELS: Record<string, Panel> = {
  headline: { charts: headline },
  latency,
  overhead: { charts: overheadCharts },
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

/** Analyses the run again and shows what came of it, everywhere. */
async function leaveOut(view: View, excluded: number[], tools: TrialTools): Promise<void> {
  tools.say("Computing…");
  // Let the words be seen before the work begins.
  await new Promise((resume) => setTimeout(resume, 20));
  const analysed = await analyse(excluded);
  if (!analysed) {
    tools.say("This page does not hold the run: use tare report --exclude.");
    return;
  }
  view.summary = analysed.summary;
  for (const part of document.querySelectorAll<HTMLElement>("[data-part]")) {
    // Written by the same code that wrote the page: all text in it is escaped.
    part.innerHTML = analysed.parts[part.dataset["part"] ?? ""] ?? "";
  }
  tools.update(view.summary);
  draw(view);
  document.documentElement.dataset["excluded"] = excluded.join(",");
}

/** Goes to the trial that the address names, as `#trial-7`. */
function follow(view: View): void {
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
  const able = Boolean(document.getElementById("input")?.textContent && document.getElementById("analysis")?.textContent);
  const place = document.querySelector<HTMLElement>("[data-trials]");
  if (place) {
    const tools: TrialTools = trialTools(place, view.summary, able, (excluded) => leaveOut(view, excluded, tools));
  }
  addEventListener("hashchange", () => follow(view));
  follow(view);
  followRun(view.summary);
  // On paper nothing unfolds. What others published is the same in every report.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll<HTMLDetailsElement>("details:not(.elsewhere)")) folded.open = true;
  });
}

void start().finally(() => {
  document.documentElement.dataset["drawn"] = "yes";
});
