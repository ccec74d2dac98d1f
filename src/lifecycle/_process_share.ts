import type { Runtime } from "../runtime.ts";

/**
 * What all copies of the package in one process share, because a process has one set of signals and one
 * end. Copies may differ in version: a change in the meaning of a member needs a new key.
 */
interface ProcessShare<I> {
  /** What listens to the signals of the process. */
  installation: I | undefined;
  /** The stop callbacks of groups with `main()`; the process does not end before these groups. */
  readonly mainStops: Set<unknown>;
  /** How many calls of `main()` have not ended. */
  mains: number;
  /** The exit codes of the calls of `main()` that have ended. */
  exitCodes: number[];
}

const KEY = Symbol.for("lastcall.process.v1");

/** Returns what the copies share. */
export function processShare<I>(): ProcessShare<I> {
  const globals = globalThis as { [KEY]?: ProcessShare<I> };
  return globals[KEY] ??= {
    installation: undefined,
    mainStops: new Set(),
    mains: 0,
    exitCodes: [],
  };
}

/**
 * Notes that a `main()` has begun. The returned function ends the process with the worst exit code of
 * all, unless another `main()` still runs: then that one ends it, and this call never resolves.
 */
export function joinProcessEnd(runtime: Runtime): (exitCode: number) => Promise<never> {
  const share = processShare();
  share.mains++;
  return async (exitCode) => {
    share.exitCodes.push(exitCode);
    if (--share.mains > 0) await new Promise(() => {});
    return runtime.exit(worstOf(share.exitCodes.splice(0)));
  };
}

/** The order of `Outcome`: forced by a signal, failed, timed out, drained. */
function worstOf(exitCodes: readonly number[]): number {
  const severity = (code: number) => code > 128 ? 3 : code === 124 ? 1 : code === 0 ? 0 : 2;
  return exitCodes.reduce((worst, code) => severity(code) > severity(worst) ? code : worst, 0);
}
