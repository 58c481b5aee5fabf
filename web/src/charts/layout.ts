// Logarithmic axes, labels that do not overlap, and several drawings in one.

/** Ticks at 1, 2 and 5 times powers of ten; only at powers of ten if the range is long. */
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

/** Ticks of an axis of ratios: at round values if the range is short, else as `logTicks`. */
export function ratioTicks([low, high]: [number, number]): number[] {
  if (high / low >= 5) return logTicks([low, high]);
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((s) => s * power >= rough) ?? 10);
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) ticks.push(Number((i * step).toPrecision(6)));
  return ticks;
}

export function tickWords(value: number): string {
  return String(Number(value.toPrecision(1)));
}

/** The range from the smallest to the largest value above 0, extended by the factor `room` on both sides. */
export function logDomain(values: number[], room = 1.15): [number, number] {
  const above = values.filter((v) => v > 0);
  if (above.length === 0) return [0.1, 1];
  return [Math.min(...above) / room, Math.max(...above) * room];
}

/** Combines several drawings into one, at their positions. */
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

/** Moves labels apart to at least `gap`, keeping their order and staying in [top, bottom]. */
export function spreadLabels(at: number[], gap: number, top: number, bottom: number): number[] {
  const order = at.map((y, i) => ({ y, i })).sort((a, b) => a.y - b.y);
  let floor = top;
  for (const label of order) {
    label.y = Math.max(label.y, floor);
    floor = label.y + gap;
  }
  let ceiling = bottom;
  for (const label of order.reverse()) {
    label.y = Math.min(label.y, ceiling);
    ceiling = label.y - gap;
  }
  const placed = new Array<number>(at.length);
  for (const label of order) placed[label.i] = label.y;
  return placed;
}
