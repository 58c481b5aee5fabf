// Colours come from the page's custom properties, so that charts follow light,
// dark and print without being drawn again.
import { colourIndex } from "./data";
import type { Summary } from "./summary";

export function colour(summary: Summary, mesh: string): string {
  return `var(--mesh-${colourIndex(summary, mesh)})`;
}

export const INK = "var(--ink)";
export const QUIET = "var(--quiet)";
export const GRID = "var(--grid)";
export const PAPER = "var(--paper)";
