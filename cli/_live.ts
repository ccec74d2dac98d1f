// A part of the terminal that is drawn again and again, in its place.

import type { Sink } from "./_io.ts";

/** What is drawn in place of itself. */
export interface Live {
  /** Draws these lines over those that were drawn last. */
  show(lines: readonly string[]): void;
  /** Removes what is drawn. */
  clear(): void;
  /** Leaves it there, and goes on below. */
  leave(): void;
}

/** Draws on a terminal; whoever calls has made sure that it is one. */
export function live(sink: Sink): Live {
  let drawn = 0;
  const back = () => drawn === 0 ? "" : `\x1b[${drawn}A\r\x1b[J`;
  return {
    show(lines) {
      const fit = fitting(lines, (sink.rows ?? 24) - 1).map((line) => clip(line, sink.columns));
      // One write, so that nobody sees it half done.
      sink.write(`${back()}${fit.join("\n")}\n`);
      drawn = fit.length;
    },
    clear() {
      sink.write(back());
      drawn = 0;
    },
    leave() {
      // The terminal has written ^C at the beginning of the line.
      sink.write("\n");
      drawn = 0;
    },
  };
}

/** What has scrolled away cannot be drawn over. */
function fitting(lines: readonly string[], rows: number): readonly string[] {
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, rows - 1), `… and ${lines.length - rows + 1} more lines`];
}

/** The beginning of a line, counting what is seen of it. */
export function clip(line: string, columns: number): string {
  // deno-lint-ignore no-control-regex -- colours take no place
  const parts = line.match(/\x1b\[\d+m|./gsu) ?? [];
  let seen = 0;
  let text = "";
  for (const [at, part] of parts.entries()) {
    const last = seen === columns - 1;
    const visible = !part.startsWith("\x1b");
    if (visible && last && parts.slice(at + 1).some((it) => !it.startsWith("\x1b"))) {
      return `${text}…${text.includes("\x1b") ? "\x1b[0m" : ""}`;
    }
    if (visible) seen++;
    text += part;
  }
  return text;
}
