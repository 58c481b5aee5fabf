// The analysis of the command line, compiled to WebAssembly, on the trials in the page.
import type { Summary } from "./summary";
import { unpack } from "./unpack";

interface Exports {
  memory: WebAssembly.Memory;
  take: (bytes: number) => number;
  result: () => number;
  open: () => number;
  analyse: () => number;
}

export interface Analysed {
  summary: Summary;
  /** The parts of the page that follow from it, as HTML, by name. */
  parts: Record<string, string>;
}

let module: Promise<Exports | null> | null = null;

/** Analyses the run without these trials; null in a page that does not hold the run. */
export async function analyse(excluded: number[]): Promise<Analysed | null> {
  module ??= open();
  const exports = await module;
  if (!exports) return null;
  give(exports, new TextEncoder().encode(JSON.stringify(excluded)));
  const length = exports.analyse();
  if (length === 0) return null;
  // The memory may have grown, and moved, in the call.
  const bytes = new Uint8Array(exports.memory.buffer, exports.result(), length);
  return JSON.parse(new TextDecoder().decode(bytes)) as Analysed;
}

async function open(): Promise<Exports | null> {
  const [code, input] = await Promise.all([unpack("analysis"), unpack("input")]);
  if (!code || !input) return null;
  const { instance } = await WebAssembly.instantiate(code, {});
  const exports = instance.exports as unknown as Exports;
  give(exports, input);
  return exports.open() === 1 ? exports : null;
}

function give(exports: Exports, bytes: Uint8Array): void {
  const at = exports.take(bytes.length);
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
}
