// The page of a history: filters, and the selection of one or two builds. Tables and charts are in the page already.
import { addFilters, applyFilters, type Filters, meshes } from "./history/filters";
import { pair, single } from "./history/panel";
import type { Entry, HistoryData } from "./history_data";
import { unpackJson } from "./unpack";

/** The state of the page, which is in the fragment of its address: it survives a reload, and can be sent. */
interface State {
  filters: Filters;
  /** The shown figure of each group that is not at its first, as the identity of its radio button. */
  figures: string[];
  /** Identities of the selected entries, at most two. */
  selected: string[];
}

function readState(): State {
  const fields = new URLSearchParams(location.hash.slice(1));
  const one = (name: string): string => fields.get(name) ?? "";
  return {
    filters: { plan: one("plan"), host: one("host"), mesh: one("mesh") },
    figures: fields.getAll("figure"),
    selected: fields.getAll("build").slice(-2),
  };
}

function writeState({ filters, figures, selected }: State): void {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value) fields.set(name, value);
  for (const figure of figures) fields.append("figure", figure);
  for (const id of selected) fields.append("build", id);
  const text = fields.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function start(data: HistoryData): void {
  const state = readState();
  const place = document.querySelector<HTMLElement>("[data-filters]");
  if (place) {
    addFilters(place, state.filters, () => {
      applyFilters(state.filters);
      show();
    });
  }
  applyFilters(state.filters);
  for (const id of state.figures) {
    const tab = document.getElementById(id);
    if (tab instanceof HTMLInputElement) tab.checked = true;
  }
  showNewest();
  const show = (): void => {
    state.selected = state.selected.filter((id) => data.entries.some((e) => e.id === id));
    const numbers = data.entries.flatMap((e, i) => (state.selected.includes(e.id) ? [i] : []));
    mark(numbers);
    fillPanel(data, numbers, state.filters, () => {
      state.selected = [];
      show();
    });
    writeState(state);
  };
  const toggle = (number: number): void => {
    const id = data.entries[number]?.id;
    if (id === undefined) return;
    const others = state.selected.filter((other) => other !== id);
    state.selected = others.length < state.selected.length ? others : [...others, id].slice(-2);
    show();
  };
  // The list of changes has links to their builds.
  addEventListener("hashchange", () => {
    state.selected = readState().selected;
    show();
    visible([...document.querySelectorAll<HTMLElement>("tr[aria-selected]")])[0]?.scrollIntoView({ block: "center" });
  });
  document.addEventListener("change", () => {
    const tabs = [...document.querySelectorAll<HTMLInputElement>(".tabs > input:checked")];
    state.figures = tabs.map((tab) => tab.id).filter((id) => !id.endsWith("-0"));
    writeState(state);
    showNewest();
  });
  document.addEventListener("click", (event) => {
    const number = numberAt(event);
    if (number === null) return;
    toggle(number);
    // The panel must not cover the row.
    if (event.target instanceof Element) event.target.closest("tr")?.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (event) => {
    const row = event.target instanceof Element ? event.target.closest<HTMLTableRowElement>("tr[data-e]") : null;
    if (event.key === "Escape" && state.selected.length > 0) {
      state.selected = [];
      show();
    } else if (row && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      toggle(Number(row.dataset["e"]));
    } else if (row && move(row, event.key)) {
      event.preventDefault();
    }
  });
  for (const grid of document.querySelectorAll("table")) {
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-multiselectable", "true");
    grid.querySelector("tr[data-e]")?.setAttribute("tabindex", "0");
  }
  show();
}

/** Scrolls timelines that are wider than the window to their newest points. */
function showNewest(): void {
  for (const timeline of document.querySelectorAll(".timeline")) timeline.scrollLeft = timeline.scrollWidth;
}

/** The entry of a row, or of the point of a timeline that is nearest to the pointer. */
function numberAt(event: MouseEvent): number | null {
  if (!(event.target instanceof Element) || event.target.closest("a")) return null;
  const row = event.target.closest<HTMLElement>("tr[data-e]");
  // Text that is being selected is not a click on its row.
  if (row) return String(getSelection()) ? null : Number(row.dataset["e"]);
  const svg = event.target.closest<SVGSVGElement>(".timeline svg");
  const toDrawing = svg?.getScreenCTM()?.inverse();
  if (!svg || !toDrawing) return null;
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(toDrawing);
  let nearest: { number: number | null; away: number } = { number: null, away: 30 };
  for (const point of svg.querySelectorAll<SVGCircleElement>("g:not([hidden]) > circle[data-e]")) {
    const away = Math.hypot(point.cx.baseVal.value - x, (point.cy.baseVal.value - y) / 4);
    if (away < nearest.away) nearest = { number: Number(point.dataset["e"]), away };
  }
  return nearest.number;
}

function visible<T extends HTMLElement>(rows: T[]): T[] {
  return rows.filter((row) => row.offsetParent !== null);
}

/** Moves the focus from a row to another one. Returns whether the key does that. */
function move(from: HTMLTableRowElement, key: string): boolean {
  const rows = visible([...(from.closest("table")?.querySelectorAll<HTMLTableRowElement>("tr[data-e]") ?? [])]);
  const at = rows.indexOf(from);
  const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
  const step = steps[key];
  if (step === undefined) return false;
  const to = rows[step];
  if (to) {
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  return true;
}

function mark(numbers: number[]): void {
  for (const old of document.querySelectorAll("tr[aria-selected]")) old.removeAttribute("aria-selected");
  for (const old of document.querySelectorAll("circle.selected")) old.classList.remove("selected");
  for (const number of numbers) {
    for (const row of document.querySelectorAll(`tr[data-e="${number}"]`)) row.setAttribute("aria-selected", "true");
    for (const point of document.querySelectorAll(`circle[data-e="${number}"]`)) point.classList.add("selected");
  }
}

function fillPanel(data: HistoryData, numbers: number[], { mesh }: Filters, close: () => void): void {
  const panel = document.querySelector<HTMLElement>(".selection");
  if (!panel) return;
  const [earlier, later] = numbers.map((number): Entry | undefined => data.entries[number]);
  panel.hidden = !earlier;
  if (!earlier) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Close";
  button.addEventListener("click", close);
  const isHidden = (variant: string): boolean => mesh !== "" && variant !== mesh && meshes().includes(variant);
  panel.replaceChildren(button, ...(later ? pair(data, earlier, later, isHidden) : single(earlier, numbers[0] ?? 0, isHidden)));
  panel.scrollTop = 0;
}

/** Follows the server of `tare history --serve`. */
function follow(): void {
  if (document.body.dataset["live"] === undefined) return;
  new EventSource("events").addEventListener("message", () => location.reload());
}

follow();
void unpackJson<HistoryData>("history")
  .then((data) => data && start(data))
  .finally(() => {
    document.documentElement.dataset["drawn"] = "yes";
  });
