// Colours are the page's custom properties, so that charts need not be drawn again for light, dark and print.
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

/** Options of all plots. */
export const BASE: Plot.PlotOptions = {
  style: { background: "transparent", color: INK, fontSize: "12px" },
};

/** Style of the box under the pointer. */
export const TIP = { fill: PAPER, stroke: GRID } as const;
