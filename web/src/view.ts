// What the page shows at the moment: the analysis, perhaps without some trials, and
// what does not depend on which trials are used.
import type { Details, TrialSeries } from "./details";
import type { Summary, TrialRow } from "./summary";

export interface View {
  summary: Summary;
  /** Absent in a page that was made from an analysis alone. */
  details: Details | null;
}

export function seriesOf(view: View, index: number): TrialSeries | undefined {
  return view.details?.series.find((s) => s.index === index);
}

/** A trial in a line: `7: envoy at 400rps, block 2`. */
export function trialWords(trial: TrialRow): string {
  return `${trial.index}: ${trial.mesh} at ${trial.load}, block ${trial.block + 1}`;
}
