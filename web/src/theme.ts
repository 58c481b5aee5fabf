// Colours come from the page's custom properties, so that charts follow light,
// dark and print without being drawn again.
import type * as Plot from "@observablehq/plot";
import { colourIndex } from "./data";
import type { Summary } from "./summary";

export function colour(summary: Summary, mesh: string): string {
  return `var(--mesh-${colourIndex(summary, mesh)})`;
}

export const INK = "var(--ink)";
export const QUIET = "var(--quiet)";
export const GRID = "var(--grid)";
export const PAPER = "var(--paper)";
export const BAD = "var(--invalid)";

/** What all plots have. */
export const BASE: Plot.PlotOptions = {
  style: { background: "transparent", color: INK, fontSize: "12px" },
};

/** The look of a box with words under the pointer. */
export const TIP = { fill: PAPER, stroke: GRID } as const;
