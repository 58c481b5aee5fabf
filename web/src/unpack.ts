// Data that lies in the page compressed (zlib) and in base64.

/** The bytes of the block with this id; null where the page has none. */
export async function unpack(id: string): Promise<Uint8Array<ArrayBuffer> | null> {
  const text = document.getElementById(id)?.textContent;
  if (!text) return null;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function unpackJson<T>(id: string): Promise<T | null> {
  const bytes = await unpack(id);
  return bytes ? (JSON.parse(new TextDecoder().decode(bytes)) as T) : null;
}
