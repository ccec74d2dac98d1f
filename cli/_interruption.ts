import { defaultRuntime, exitCodeOf } from "../src/runtime.ts";
import { CliError } from "./_errors.ts";
import type { Io } from "./_io.ts";

/** Ctrl+C, or another signal that asks for a stop, as a signal to listen to. */
export interface Interruption {
  /** Aborted with the error that tells so. */
  readonly signal: AbortSignal;
  /** Listens no more. */
  end(): void;
}

/** Listens for it until its end; without that a signal would end the process at once. */
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
