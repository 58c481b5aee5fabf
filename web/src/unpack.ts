// What is embedded in the page: text, compressed (zlib) and in base64.

/** Returns the text with this id, or null if the page has none. */
export async function unpackText(id: string): Promise<string | null> {
  const text = document.getElementById(id)?.textContent;
  if (!text) return null;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Returns the document with this id, or null if the page has none. */
export async function unpackJson<T>(id: string): Promise<T | null> {
  const text = await unpackText(id);
  return text === null ? null : (JSON.parse(text) as T);
}
