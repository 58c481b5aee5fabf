// The data of the page.
import type { Details, TrialSeries } from "./details";
import type { Summary, TrialRow } from "./summary";
import { STATUSES } from "./words";

export interface View {
  summary: Summary;
  /** Absent on a page that was made from a summary only. */
  details: Details | null;
}

export function seriesOf(view: View, index: number): TrialSeries | undefined {
  return view.details?.series.find((s) => s.index === index);
}

/** A trial on one line: `7: envoy at 400rps, block 2`, and what became of it if it is not used. */
export function trialWords(trial: TrialRow): string {
  const status = trial.status === "used" ? "" : `, ${STATUSES[trial.status]}`;
  return `${trial.index}: ${trial.mesh} at ${trial.load}, block ${trial.block + 1}${status}`;
}
