// Published figures that a reader lays beside the run's: off until asked for, drawn in
// a way of their own, and labelled as measured elsewhere.
import { checkbox, select } from "./panel";
import type { Bound, Load, Published, PublishedFigure, Summary } from "./summary";

export const ELSEWHERE = "published on other machines";

/** What one panel shows of publications. */
export interface Overlay {
  controls: (summary: Summary, redraw: () => void) => HTMLElement[];
  /** Of the chosen publication; none while it is switched off. */
  beside: (summary: Summary, load: Load) => Beside | null;
}

/** A publication's figures at its rate next to that of a load. */
export interface Beside {
  /** Its name, and at which rate. */
  source: string;
  figures: PublishedFigure[];
}

/** `fits` says which figures the panel can draw at all. */
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
      const box = checkbox(`figures ${ELSEWHERE}`, shown, (on) => {
        shown = on;
        list.hidden = !on;
        redraw();
      });
      return [box, list];
    },
    beside: (summary, load) => {
      const publication = shown ? source(summary) : undefined;
      return publication ? nearest(publication, load.rate_rps, fits) : null;
    },
  };
}

/** Those with most to show first. */
function sources(summary: Summary, fits: (figure: PublishedFigure) => boolean): Published[] {
  const count = (p: Published): number => p.figures.filter(fits).length;
  return summary.published.filter((p) => count(p) > 0).sort((a, b) => count(b) - count(a));
}

/** The figures of the rate whose ratio to `rate` is smallest, and those without a rate. */
export function nearest(publication: Published, rate: number, fits: (figure: PublishedFigure) => boolean): Beside {
  const all = publication.figures.filter(fits);
  const away = (rps: number): number => Math.abs(Math.log(rps / rate));
  const rates = all.flatMap((f) => (f.rate_rps === null ? [] : [f.rate_rps]));
  const at = rates.sort((a, b) => away(a) - away(b))[0] ?? null;
  return {
    source: at === null ? publication.id : `${publication.id} at ${at.toLocaleString("en")} rps`,
    figures: all.filter((f) => f.rate_rps === at || f.rate_rps === null),
  };
}

/** `over 1000`: a number with what the publication says of it. */
export function withBound(words: string, bound: Bound): string {
  return bound === "exact" ? words : `${bound} ${words}`;
}

/** The rows of a chart's CSV, each with where it is from. */
export function rowsWithSource(own: object[], beside: Beside | null, published: object[]): object[] {
  if (!beside) return own;
  return [
    ...own.map((row) => ({ source: "this run", ...row })),
    ...published.map((row) => ({ source: `${ELSEWHERE}: ${beside.source}`, ...row })),
  ];
}
