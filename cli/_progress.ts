// A line that tells a person how far a long command is. It is gone when the command has ended.

import { bar } from "../src/terminal/text.ts";
import type { Io } from "./_io.ts";

const WIDTH = 24;
/** More often than this nobody can read it. */
const INTERVAL_MS = 100;

/** How far something is. */
export interface Progress {
  /** So many are done, of how many if that is known. */
  to(done: number, total?: number): void;
  /** Removes the line. */
  end(): void;
}

/** Shows progress on standard error, where a person looks at it and no program reads along. */
export function progress(io: Io, what: string, json: boolean): Progress {
  if (!io.err.interactive || json) return { to() {}, end() {} };
  const began = Date.now();
  let shownAt = 0;
  return {
    to(done, total) {
      const now = Date.now();
      if (now - shownAt < INTERVAL_MS) return;
      shownAt = now;
      io.err.write(`\r\x1b[K${progressLine(what, done, total, now - began)}`);
    },
    end() {
      if (shownAt > 0) io.err.write("\r\x1b[K");
    },
  };
}

/** `sending  ━━━━━━────  60 of 100 · 120 a second` */
export function progressLine(
  what: string,
  done: number,
  total: number | undefined,
  elapsedMs: number,
): string {
  const rate = elapsedMs >= 1_000 ? ` · ${Math.round(done / (elapsedMs / 1_000))} a second` : "";
  if (total === undefined || total < done) return `${what}  ${done}${rate}`;
  return `${what}  ${doneBar(done, total)}  ${done} of ${total}${rate}`;
}

/** So much of all, as a bar. */
export function doneBar(done: number, total: number): string {
  return bar(total === 0 ? 1 : done / total, WIDTH);
}
