// Commands that run until Ctrl+C or another stop signal.

import { systemClock } from "../mod.ts";
import { defaultRuntime, exitCodeOf } from "../src/runtime.ts";
import { CliError } from "./_errors.ts";
import type { Io } from "./_io.ts";

/** Stop signals of the process as an `AbortSignal`. */
export interface Interruption {
  /** Aborts with a {@linkcode CliError} that names the signal. */
  readonly signal: AbortSignal;
  /** Removes the listeners. */
  end(): void;
}

/** Listens for stop signals. Without a listener the runtime would end the process at once. */
export function interruption(io: Io): Interruption {
  const abort = new AbortController();
  const runtime = io.group?.runtime ?? defaultRuntime();
  const removers = runtime.stopSignals.map((name) =>
    runtime.onSignal(name, () => {
      abort.abort(
        new CliError("interrupted", `Stopped by ${name}`, { exitCode: exitCodeOf(name) }),
      );
    })
  );
  return {
    signal: abort.signal,
    end: () => removers.forEach((remove) => remove()),
  };
}

/** Calls `look` every `everyMs` milliseconds until a stop signal. */
export async function watch(
  io: Io,
  everyMs: number,
  look: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const interrupted = interruption(io);
  try {
    while (!interrupted.signal.aborted) {
      await look(interrupted.signal);
      await sleep(everyMs, interrupted.signal);
    }
  } finally {
    interrupted.end();
  }
}

/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(ms, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
