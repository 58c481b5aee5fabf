// The frame of a chart: title, drawing, buttons to save it, a description for screen readers. It is drawn again when its
// width changes.
import { csv } from "./csv";

export interface Chart {
  /** The title above it. */
  title: string;
  /** A description for screen readers. */
  description: string;
  /** What the reader must know, below it. */
  note?: string;
  /** Name of saved files, without extension. */
  file: string;
  /** Its data as CSV rows. */
  rows: object[];
  /** Draws at a width in CSS pixels. */
  draw: (width: number) => SVGSVGElement;
}

export function mount(parent: Element, chart: Chart): void {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const title = document.createElement("h3");
  title.textContent = chart.title;
  const section = parent.closest("section")?.querySelector("h2")?.textContent;
  const whole = section ? `${section}, ${chart.title}` : chart.title;
  const tools = document.createElement("div");
  tools.className = "tools";
  const holder = document.createElement("div");
  holder.className = "drawing";
  tools.append(
    button("SVG", `Save ${whole} as SVG`, () =>
      save(`${chart.file}.svg`, "image/svg+xml", standalone(holder.querySelector("svg"), whole)),
    ),
    button("CSV", `Save the data of ${whole} as CSV`, () =>
      save(`${chart.file}.csv`, "text/csv", csv(chart.rows)),
    ),
  );
  caption.append(title, tools);
  figure.append(caption, holder);
  if (chart.note) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = chart.note;
    figure.append(note);
  }
  parent.append(figure);

  let drawn = 0;
  const draw = (): void => {
    const width = Math.max(280, Math.floor(holder.clientWidth));
    if (width === drawn) return;
    drawn = width;
    const svg = chart.draw(width);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${whole}. ${chart.description}`);
    holder.replaceChildren(svg);
  };
  draw();
  new ResizeObserver(draw).observe(holder);
}

function button(label: string, description: string, act: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.setAttribute("aria-label", description);
  element.addEventListener("click", act);
  return element;
}

function save(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const COPIED = ["fill", "stroke", "color", "font-size", "font-family", "font-weight", "font-variant-numeric"];

/** The drawing as a standalone file: with resolved colours, a background and a title. */
export function standalone(svg: SVGSVGElement | null, title: string): string {
  if (!svg) return "";
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((source, i) => {
    const style = getComputedStyle(source);
    for (const property of COPIED) {
      to[i]?.style.setProperty(property, style.getPropertyValue(property));
    }
    // The style replaces attributes that refer to properties of the page.
    for (const name of to[i]?.getAttributeNames() ?? []) {
      if (name !== "style" && to[i]?.getAttribute(name)?.startsWith("var(")) to[i]?.removeAttribute(name);
    }
  });
  const space = 30;
  const [, , width = 0, height = 0] = (svg.getAttribute("viewBox") ?? "").split(/[ ,]+/).map(Number);
  copy.setAttribute("viewBox", `0 ${-space} ${width} ${height + space}`);
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height + space));
  const make = (name: string, attributes: Record<string, string>): SVGElement => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const page = getComputedStyle(document.body);
  const background = make("rect", {
    x: "0",
    y: String(-space),
    width: String(width),
    height: String(height + space),
    fill: page.backgroundColor,
  });
  const heading = make("text", {
    x: "6",
    y: "-10",
    fill: page.color,
    "font-family": page.fontFamily,
    "font-size": "14",
    "font-weight": "600",
    "text-anchor": "start",
  });
  heading.textContent = title;
  copy.prepend(background, heading);
  return new XMLSerializer().serializeToString(copy);
}

/** Replaces characters of a label that a file name should not have. */
export function fileName(text: string): string {
  return text.replace(/[^\w.-]/g, "-");
}
