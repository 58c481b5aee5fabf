// The list of trials: a filter, ticks that leave trials out, and what was left out.
import type { Summary } from "./summary";

export interface TrialTools {
  say: (words: string) => void;
  /** Marks what is used now. */
  update: (summary: Summary) => void;
}

export function trialTools(
  place: HTMLElement, summary: Summary, able: boolean, leaveOut: (excluded: number[]) => void,
): TrialTools {
  const boxes = [...document.querySelectorAll<HTMLInputElement>("input[data-exclude]")];
  const excluded = (): number[] => boxes.filter((b) => !b.checked).map((b) => Number(rowOf(b)?.dataset["trial"]));
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  const all = document.createElement("button");
  all.type = "button";
  all.textContent = "Use all again";
  all.addEventListener("click", () => {
    for (const box of boxes) box.checked = true;
    leaveOut([]);
  });
  const tools: TrialTools = {
    say: (words) => {
      status.textContent = words;
    },
    update: (now) => {
      const out = now.trials.filter((t) => t.excluded).map((t) => t.index);
      for (const trial of now.trials) {
        const row = document.querySelector(`tr[data-trial="${trial.index}"]`);
        row?.classList.toggle("unused", !trial.used);
      }
      all.hidden = out.length === 0;
      const hint = able ? "" : "This page does not hold the whole run: leave trials out with tare report DIR --exclude TRIAL,…";
      tools.say(out.length === 0 ? hint : `Left out: ${out.join(", ")}. The same on the command line: tare report DIR --exclude ${out.join(",")}`);
    },
  };
  if (able) {
    for (const box of boxes) {
      box.disabled = false;
      box.addEventListener("change", () => leaveOut(excluded()));
    }
  }
  place.append(filter(), all, status);
  tools.update(summary);
  return tools;
}

function rowOf(inner: Element): HTMLElement | null {
  return inner.closest<HTMLElement>("tr[data-trial]");
}

/** Shows the rows that hold all words typed, with the reasons below them. */
function filter(): HTMLElement {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "mesh, load, verdict…";
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll<HTMLTableRowElement>("tr[data-trial]")) {
      const next = row.nextElementSibling as HTMLTableRowElement | null;
      const reasons = next?.classList.contains("reasons") ? next : null;
      const cells = [...row.cells, ...(reasons?.cells ?? [])].map((c) => c.textContent?.toLowerCase() ?? "");
      const text = cells.join(" ");
      row.hidden = !words.every((word) => text.includes(word));
      if (reasons) reasons.hidden = row.hidden;
    }
  });
  label.append("Show only ", input);
  return label;
}
