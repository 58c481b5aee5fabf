// A place on the page with charts of one kind and their controls.
import { type Chart, mount } from "./figure";
import type { View } from "./view";

export interface Panel {
  /** Elements that select what is drawn; they call `redraw` after a change. */
  controls?: (view: View, redraw: () => void) => HTMLElement[];
  charts: (view: View) => Chart[];
}

export function drawPanel(place: HTMLElement, panel: Panel, view: View): void {
  const grid = document.createElement("div");
  grid.className = "grid";
  const fill = (): void => {
    grid.replaceChildren();
    const charts = panel.charts(view);
    for (const chart of charts) mount(grid, chart);
    if (charts.length === 0) grid.append(nothing());
  };
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.append(...(panel.controls?.(view, fill) ?? []));
  place.replaceChildren(...(controls.childElementCount > 0 ? [controls] : []), grid);
  fill();
}

function nothing(): HTMLElement {
  const words = document.createElement("p");
  words.className = "caption";
  words.textContent = "No chart: no usable trial has these figures.";
  return words;
}

/** A choice of few options, as a row of buttons. */
export function choice<T extends string>(
  label: string, options: readonly T[], chosen: T, choose: (option: T) => void,
): HTMLElement {
  const group = document.createElement("div");
  group.className = "choice";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  const buttons = options.map((option) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = option;
    button.addEventListener("click", () => {
      mark(option);
      choose(option);
    });
    return button;
  });
  const mark = (now: T): void =>
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i] === now)));
  mark(chosen);
  group.append(...buttons);
  return group;
}

/** A choice of many options, as a list. */
export function select(
  label: string, options: { value: string; words: string }[], chosen: string, choose: (value: string) => void,
): HTMLElement {
  const outer = document.createElement("label");
  const list = document.createElement("select");
  for (const { value, words } of options) list.add(new Option(words, value, false, value === chosen));
  list.addEventListener("change", () => choose(list.value));
  outer.append(`${label} `, list);
  return outer;
}

/** A switch. */
export function checkbox(label: string, on: boolean, choose: (on: boolean) => void): HTMLElement {
  const outer = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = on;
  box.addEventListener("change", () => choose(box.checked));
  outer.append(box, ` ${label}`);
  return outer;
}
