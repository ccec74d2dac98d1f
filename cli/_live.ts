// Output that is redrawn in place on a terminal.

import { bar } from "../src/terminal/text.ts";
import type { Io, Sink } from "./_io.ts";

/** Lines of a terminal that are replaced by each drawing. */
export interface Live {
  /** Draws these lines over the previous ones. */
  show(lines: readonly string[]): void;
  /** Removes the drawing. */
  clear(): void;
  /** Leaves the drawing in place and continues below it. */
  leave(): void;
}

/** Draws on a sink, which must be a terminal. */
export function live(sink: Sink): Live {
  let drawn = 0;
  const back = () => drawn === 0 ? "" : `\x1b[${drawn}A\r\x1b[J`;
  return {
    show(lines) {
      const fit = fitRows(lines, (sink.rows ?? 24) - 1).map((line) => clip(line, sink.columns));
      // One write avoids flicker.
      sink.write(`${back()}${fit.join("\n")}\n`);
      drawn = fit.length;
    },
    clear() {
      sink.write(back());
      drawn = 0;
    },
    leave() {
      // The terminal has echoed ^C at the beginning of the line.
      sink.write("\n");
      drawn = 0;
    },
  };
}

/** Draws on the whole terminal, as an editor does. `leave` brings back the text that was there before. */
export function fullScreen(sink: Sink): Pick<Live, "show" | "leave"> {
  sink.write("\x1b[?1049h\x1b[?25l");
  return {
    show(lines) {
      const fit = fitRows(lines, sink.rows ?? 24).map((line) =>
        `${clip(line, sink.columns)}\x1b[K`
      );
      // One write avoids flicker.
      sink.write(`\x1b[H${fit.join("\r\n")}\x1b[J`);
    },
    leave: () => sink.write("\x1b[?25h\x1b[?1049l"),
  };
}

/** Limits the height: lines that have scrolled away cannot be drawn over. */
function fitRows(lines: readonly string[], rows: number): readonly string[] {
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, rows - 1), `… and ${lines.length - rows + 1} more lines`];
}

/** Cuts a line to a width, without counting its colour codes. */
function clip(line: string, columns: number): string {
  // deno-lint-ignore no-control-regex -- matches colour codes
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

const BAR_WIDTH = 24;
const PROGRESS_INTERVAL_MS = 100;

/** The progress of a long command. */
export interface Progress {
  /** Shows how many are done, and of how many where that is known. */
  to(done: number, total?: number): void;
  /** Removes the line. */
  end(): void;
}

/** Shows progress on standard error, on a terminal and without `--json`. */
export function progress(io: Io, what: string, json: boolean): Progress {
  if (!io.err.interactive || json) return { to() {}, end() {} };
  const began = Date.now();
  let shownAt = 0;
  return {
    to(done, total) {
      const now = Date.now();
      if (now - shownAt < PROGRESS_INTERVAL_MS) return;
      shownAt = now;
      io.err.write(`\r\x1b[K${progressLine(what, done, total, now - began)}`);
    },
    end() {
      if (shownAt > 0) io.err.write("\r\x1b[K");
    },
  };
}

/** Formats progress: `sending  ━━━━━━────  60 of 100 · 120 per second`. */
export function progressLine(
  what: string,
  done: number,
  total: number | undefined,
  elapsedMs: number,
): string {
  const rate = elapsedMs >= 1_000 ? ` · ${Math.round(done / (elapsedMs / 1_000))} per second` : "";
  if (total === undefined || total < done) return `${what}  ${done}${rate}`;
  return `${what}  ${progressBar(done, total)}  ${done} of ${total}${rate}`;
}

/** Formats a share as a bar. */
export function progressBar(done: number, total: number): string {
  return bar(total === 0 ? 1 : done / total, BAR_WIDTH);
}
