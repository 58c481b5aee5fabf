// The rows of a chart as a file.

/** Comma-separated values (RFC 4180) with one column per key of any row. Text that a spreadsheet could run as a formula
 * begins with an apostrophe. */
export function csv(rows: object[]): string {
  if (rows.length === 0) return "";
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const field = (value: unknown): string => {
    if (value === null || value === undefined) return "";
    let text = Array.isArray(value) ? value.join(" ") : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map((c) => field((row as Record<string, unknown>)[c])).join(","));
  return [columns.join(","), ...lines].join("\r\n") + "\r\n";
}
