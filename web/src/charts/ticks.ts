// Marks on logarithmic axes.

/** 1, 2, 5 times powers of ten in the range; only powers of ten when it is long. */
export function logTicks([low, high]: [number, number]): number[] {
  const steps = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  const ticks: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1) {
    for (const step of steps) {
      const tick = step * 10 ** e;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}

export function tickWords(value: number): string {
  return String(Number(value.toPrecision(1)));
}

/** A little more than from the smallest to the largest value above 0. */
export function logDomain(values: number[], room = 1.15): [number, number] {
  const above = values.filter((v) => v > 0);
  if (above.length === 0) return [0.1, 1];
  return [Math.min(...above) / room, Math.max(...above) * room];
}

/** Some nested drawings as one, below and beside each other. */
export function compose(parts: { svg: SVGSVGElement; x: number; y: number }[], width: number, height: number): SVGSVGElement {
  const outer = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  outer.setAttribute("viewBox", `0 0 ${width} ${height}`);
  outer.setAttribute("width", String(width));
  outer.setAttribute("height", String(height));
  for (const { svg, x, y } of parts) {
    svg.setAttribute("x", String(x));
    svg.setAttribute("y", String(y));
    outer.append(svg);
  }
  return outer;
}

/** A part of a file's name. */
export function fileWord(text: string): string {
  return text.replace(/[^\w.-]/g, "-");
}
