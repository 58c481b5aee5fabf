// Published figures in the charts of the run: off by default, drawn differently, and labelled as from other machines.
import { checkbox, select } from "./panel";
import type { Bound, Load, Published, PublishedFigure, Summary } from "./summary";

export const PUBLISHED = "published on other machines";

/** The published figures of one panel. */
export interface Overlay {
  controls: (summary: Summary, redraw: () => void) => HTMLElement[];
  /** Figures of the selected publication; null while published figures are hidden. */
  atLoad: (summary: Summary, load: Load) => PublishedAtLoad | null;
}

/** A publication's figures at its rate nearest to that of a load. */
export interface PublishedAtLoad {
  /** Name of the publication, and the rate. */
  source: string;
  figures: PublishedFigure[];
}

/** Creates the published figures of a panel; `fits` selects the figures that the panel can draw. */
export function overlay(fits: (figure: PublishedFigure) => boolean): Overlay {
  let shown = false;
  let chosen: string | null = null;
  const source = (summary: Summary): Published | undefined => {
    const all = sources(summary, fits);
    return all.find((p) => p.id === chosen) ?? all[0];
  };
  return {
    controls: (summary, redraw) => {
      const all = sources(summary, fits);
      if (all.length === 0) return [];
      const options = all.map((p) => ({ value: p.id, words: p.title }));
      const list = select("from", options, source(summary)?.id ?? "", (id) => {
        chosen = id;
        redraw();
      });
      list.hidden = !shown;
      const box = checkbox(`show figures ${PUBLISHED}`, shown, (on) => {
        shown = on;
        list.hidden = !on;
        redraw();
      });
      return [box, list];
    },
    atLoad: (summary, load) => {
      const publication = shown ? source(summary) : undefined;
      return publication ? nearest(publication, load.rate_rps, fits) : null;
    },
  };
}

/** The publications, sorted by their number of figures, largest first. */
function sources(summary: Summary, fits: (figure: PublishedFigure) => boolean): Published[] {
  const count = (p: Published): number => p.figures.filter(fits).length;
  return summary.published.filter((p) => count(p) > 0).sort((a, b) => count(b) - count(a));
}

/** The figures at the rate nearest to `rate` (by ratio), and those without a rate. */
export function nearest(publication: Published, rate: number, fits: (figure: PublishedFigure) => boolean): PublishedAtLoad {
  const all = publication.figures.filter(fits);
  const away = (rps: number): number => Math.abs(Math.log(rps / rate));
  const rates = all.flatMap((f) => (f.rate_rps === null ? [] : [f.rate_rps]));
  const at = rates.sort((a, b) => away(a) - away(b))[0] ?? null;
  return {
    source: at === null ? publication.id : `${publication.id} at ${at.toLocaleString("en")} rps`,
    figures: all.filter((f) => f.rate_rps === at || f.rate_rps === null),
  };
}

/** A number with its bound, such as `over 1000`. */
export function withBound(words: string, bound: Bound): string {
  return bound === "exact" ? words : `${bound} ${words}`;
}

/** The rows of a chart's CSV, each with its source. */
export function rowsWithSource(own: object[], from: PublishedAtLoad | null, published: object[]): object[] {
  if (!from) return own;
  return [
    ...own.map((row) => ({ source: "this run", ...row })),
    ...published.map((row) => ({ source: `${PUBLISHED}: ${from.source}`, ...row })),
  ];
}
