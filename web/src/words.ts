// Numbers and names in charts, formatted as in the tables.
import type { Load } from "./summary";

/** Three significant digits, without an exponent. */
export function significant(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(6, Math.max(0, 2 - magnitude)));
}

export function milliseconds(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1) return `${significant(ms * 1000)} µs`;
  return size < 1000 ? `${significant(ms)} ms` : `${significant(ms / 1000)} s`;
}

/** The heading of a load. */
export function loadWords(load: Load): string {
  const rate = `${load.rate_rps.toLocaleString("en", { maximumFractionDigits: 2 })} rps`;
  return load.name.replaceAll(" ", "") === rate.replace(/[ ,]/g, "") ? rate : `${load.name} (${rate})`;
}

/** The name of a mesh, shortened. */
export function short(name: string): string {
  return name.length > 13 ? `${name.slice(0, 12)}…` : name;
}
