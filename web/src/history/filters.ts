// The filters of the page: plan, host and mesh.
import { select } from "../panel";

export type Filters = Record<"plan" | "host" | "mesh", string>;

/** Adds a filter for each property that has several values. */
export function addFilters(place: HTMLElement, chosen: Filters, changed: () => void): void {
  const groups = [...document.querySelectorAll<HTMLElement>(".group")];
  const values: Record<keyof Filters, string[]> = {
    plan: groups.map((g) => g.dataset["plan"] ?? ""),
    host: groups.map((g) => g.dataset["host"] ?? ""),
    mesh: meshes(),
  };
  for (const name of ["plan", "host", "mesh"] as const) {
    const all = [...new Set(values[name])];
    if (!all.includes(chosen[name])) chosen[name] = "";
    if (all.length < 2) continue;
    const options = [{ value: "", words: "all" }, ...all.map((value) => ({ value, words: value }))];
    place.append(
      select(name, options, chosen[name], (value) => {
        chosen[name] = value;
        changed();
      }),
    );
  }
  place.hidden = place.childElementCount === 0;
}

/** The variants that are not a baseline. */
export function meshes(): string[] {
  return [...document.querySelectorAll<HTMLElement>(".group")].flatMap(meshesOf);
}

function meshesOf(group: HTMLElement): string[] {
  const cards = [...group.querySelectorAll<HTMLElement>(".sparks li")];
  return cards.flatMap((card) => (card.classList.contains("mesh-0") ? [] : (card.dataset["variant"] ?? [])));
}

const hiddenColumns = document.createElement("style");

/** Hides the groups of other plans and hosts, and the columns and points of other meshes but the baseline. */
export function applyFilters({ plan, host, mesh }: Filters): void {
  const rules: string[] = [];
  for (const group of document.querySelectorAll<HTMLElement>(".group")) {
    const own = meshesOf(group);
    const { plan: ofPlan, host: ofHost } = group.dataset;
    group.hidden = (plan !== "" && plan !== ofPlan) || (host !== "" && host !== ofHost) || (mesh !== "" && !own.includes(mesh));
    const isHidden = (e: HTMLElement | SVGElement): boolean =>
      mesh !== "" && e.dataset["variant"] !== mesh && own.includes(e.dataset["variant"] ?? "");
    for (const part of group.querySelectorAll<HTMLElement | SVGElement>("li, .mesh, g[data-variant]")) {
      part.toggleAttribute("hidden", part.dataset["variant"] !== undefined && isHidden(part));
    }
    for (const view of group.querySelectorAll<HTMLElement>(".view")) {
      const id = (view.id ||= `view-of-${view.previousElementSibling?.getAttribute("for") ?? ""}`);
      [...view.querySelectorAll<HTMLElement>("thead th")].forEach((head, i) => {
        if (isHidden(head)) rules.push(`#${id} tr > :nth-child(${i + 1}) { display: none }`);
      });
    }
  }
  if (!hiddenColumns.isConnected) document.head.append(hiddenColumns);
  hiddenColumns.textContent = rules.join("\n");
}
