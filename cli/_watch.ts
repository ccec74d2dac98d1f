// What goes on until Ctrl+C.

import { systemClock } from "../mod.ts";
import { defaultRuntime } from "../src/runtime.ts";
import type { Io } from "./_io.ts";

/** Ctrl+C, or another signal that asks for a stop, as a signal to listen to. */
export interface Interruption {
  readonly signal: AbortSignal;
  /** Listens no more. */
  end(): void;
}

/** Listens for it until its end; without that a signal would end the process at once. */
export function interruption(io: Io): Interruption {
  const abort = new AbortController();
  const runtime = io.group?.runtime ?? defaultRuntime();
  const removers = runtime.stopSignals.map((name) => runtime.onSignal(name, () => abort.abort()));
  return {
    signal: abort.signal,
    end: () => removers.forEach((remove) => remove()),
  };
}

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
