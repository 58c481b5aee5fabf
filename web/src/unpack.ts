// Data embedded in the page: JSON, compressed (zlib) and in base64.

/** Returns the document with this id, or null if the page has none. */
export async function unpackJson<T>(id: string): Promise<T | null> {
  const text = document.getElementById(id)?.textContent;
  if (!text) return null;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(stream).json()) as T;
}
