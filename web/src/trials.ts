// The filter of the list of trials.

/** Shows only the trials whose row or reasons contain every typed word. */
export function trialFilter(): HTMLElement {
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
  label.append("Filter ", input);
  return label;
}
