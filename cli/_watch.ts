// What goes on until Ctrl+C.

import { systemClock } from "../mod.ts";
import { interruption } from "./_interruption.ts";
import type { Io } from "./_io.ts";

/** Looks again and again until it is interrupted. */
export async function watch(
  io: Io,
  everyMs: number,
  look: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const interrupted = interruption(io);
  try {
    while (!interrupted.signal.aborted) {
      await look(interrupted.signal);
      await pause(everyMs, interrupted.signal);
    }
  } finally {
    interrupted.end();
  }
}

/** Resolves after a time, or as soon as the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(ms, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
