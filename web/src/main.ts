// Draws the charts of the report page from the summary embedded in it.
import { latencyCharts } from "./charts/latency";
import { overheadCharts } from "./charts/overhead";
import { cpuCharts, memoryCharts } from "./charts/resources";
import { type Chart, mount } from "./figure";
import type { Summary } from "./summary";

const CHARTS: Record<string, (summary: Summary) => Chart[]> = {
  latency: latencyCharts,
  overhead: overheadCharts,
  cpu: cpuCharts,
  memory: memoryCharts,
};

const data = document.getElementById("summary")?.textContent;
const summary = JSON.parse(data ?? "null") as Summary | null;
for (const place of document.querySelectorAll<HTMLElement>("[data-chart]")) {
  const make = CHARTS[place.dataset["chart"] ?? ""];
  if (!summary || !make) continue;
  const charts = make(summary);
  if (charts.length === 0) {
    const words = document.createElement("p");
    words.className = "caption";
    words.textContent = "Nothing to draw: no usable trial has these figures.";
    place.append(words);
  }
  for (const chart of charts) mount(place, chart);
}
document.documentElement.dataset["drawn"] = "yes";
