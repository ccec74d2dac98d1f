// Writes Markdown in the format of `deno fmt`.

const WIDTH = 100;

/** Wraps a text to the line width. */
export function paragraph(text: string, indent = ""): string {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1)!;
    if (line === "") lines[lines.length - 1] = word;
    else if (indent.length + line.length + 1 + word.length <= WIDTH) {
      lines[lines.length - 1] = `${line} ${word}`;
    } else lines.push(word);
  }
  return lines.join(`\n${indent}`);
}

/** Returns a bulleted list. */
export function list(items: readonly string[]): string {
  return items.map((item) => `- ${paragraph(item, "  ")}`).join("\n");
}

/** Returns a table with aligned columns; the first row holds the headings. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map((it) => it.trim().replaceAll("|", "\\|")));
  const columns = Math.max(...cells.map(({ length }) => length));
  const widths = Array.from(
    { length: columns },
    (_, i) => Math.max(3, ...cells.map((row) => row[i]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, i) => (row[i] ?? "").padEnd(width)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(cells[0] ?? []), rule, ...cells.slice(1).map(line)].join("\n");
}
