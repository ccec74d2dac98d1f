import type { Runtime } from "../runtime.ts";
import { worstExitCode } from "./drain_report.ts";

/**
 * State that all copies of the package in one process share, because a process has one set of signals
 * and exits once. Copies may differ in version: a change in the meaning of a member needs a new key.
 */
interface ProcessShare<I> {
  /** The installed coordinator, which listens to the signals of the process. */
  installation: I | undefined;
  /** The stop callbacks of groups that run with `main()`. The process ends after these groups. */
  readonly mainStops: Set<unknown>;
  /** The number of `main()` calls that have not ended. */
  mains: number;
  /** The exit codes of the `main()` calls that have ended. */
  exitCodes: number[];
  /**
   * Gets the options of every group and loop that is told to run, which then does not run: its `main()` or
   * `run()` never settles. `lastcall doctor` sets it while it loads a module. Older copies ignore it.
   */
  inspect?: ((options: object) => void) | undefined;
}

const KEY = Symbol.for("lastcall.process.v1");

/** Returns the shared state of the process of `runtime`. */
export function processShare<I>(runtime?: Runtime): ProcessShare<I> {
  const globals = (runtime?.globals ?? globalThis) as { [KEY]?: ProcessShare<I> };
  return globals[KEY] ??= {
    installation: undefined,
    mainStops: new Set(),
    mains: 0,
    exitCodes: [],
  };
}

/** Hands the options to the inspector of the process. Returns false when there is none. */
export function isInspected(options: () => object): boolean {
  const { inspect } = processShare();
  inspect?.(options());
  return inspect !== undefined;
}

/**
 * Registers a call of `main()`. The returned function ends the process with the worst exit code of all
 * calls. While another `main()` still runs, it never resolves, and the last one ends the process.
 */
export function joinProcessEnd(runtime: Runtime): (exitCode: number) => Promise<never> {
  const share = processShare(runtime);
  share.mains++;
  return async (exitCode) => {
    share.exitCodes.push(exitCode);
    if (--share.mains > 0) await new Promise(() => {});
    return runtime.exit(worstExitCode(share.exitCodes.splice(0)));
  };
}
