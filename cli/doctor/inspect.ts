// Loads the module of a worker without running it: its groups and loops hand over their options instead.

import type { RunOptions } from "../../mod.ts";
import { systemClock } from "../../mod.ts";
import { processShare } from "../../src/lifecycle/process_share.ts";
import { CliError, messageOf, toCliError } from "../_errors.ts";
import { loadModule, type Runnables, runnablesOf } from "../_module.ts";
import { durationText } from "./finding.ts";

/** A loop as any copy of the package has it. */
export interface InspectedLoop {
  readonly name: string;
  readonly shutdownTimeoutMs?: number | undefined;
  readonly heartbeat?: unknown;
  /** The `settings` of loops with a mailbox. */
  readonly settings?: unknown;
}

/** The options that a group hands over. A loop that runs without a group has `loops` and `runOptions` only. */
export interface Inspected {
  readonly loops: readonly InspectedLoop[];
  readonly runOptions: RunOptions;
  readonly shutdownTimeoutMs?: number;
  readonly unreadyDelayMs?: number;
  readonly watchdogThresholdMs?: number | false;
  readonly healthPort?: number;
  readonly healthHost?: string;
}

/** What a module runs, or would run with `lastcall run`. */
export interface Inspection {
  /** `program`: the module itself calls `main()` or `run()`. */
  readonly kind: Runnables["kind"] | "program";
  readonly groups: readonly Inspected[];
}

/**
 * Loads a module and waits until a group or a loop is told to run. Calls `start` with what the module exports
 * if it runs nothing itself.
 *
 * @throws {CliError} when the module cannot be loaded, or runs and exports nothing within `limitMs`.
 */
export async function inspectModule(
  path: string,
  limitMs: number,
  start: (found: Runnables) => Promise<unknown>,
): Promise<Inspection> {
  const share = processShare();
  const groups: Inspected[] = [];
  let kind: Inspection["kind"] = "program";
  let nothing = `${path} did not finish loading`;
  const told = new Promise<void>((resolve, reject) => {
    share.inspect = (options) => {
      groups.push(options as Inspected);
      resolve();
    };
    refuseOtherCopies(share, path, reject);
  });
  const startExports = async () => {
    const exports = await loadModule(path);
    if (groups.length > 0) return;
    let found: Runnables;
    try {
      found = await runnablesOf(path, exports);
    } catch (error) {
      nothing = messageOf(error);
      return await told; // the program may call main() later
    }
    kind = found.kind;
    await start(found);
  };
  const timer = new AbortController();
  try {
    const timeUp = systemClock.sleep(limitMs, { signal: timer.signal }).then(() => true, () => {});
    if (await Promise.race([told, startExports(), timeUp])) {
      const waited = `and no group or loop was told to run within ${durationText(limitMs)}`;
      throw new CliError("failed", `${nothing}, ${waited}`);
    }
    await nextTurn(); // a program may run several groups
    return { kind, groups };
  } catch (error) {
    throw toCliError(error);
  } finally {
    timer.abort();
    share.inspect = undefined;
    Object.defineProperty(share, "mains", { value: share.mains, writable: true });
  }
}

/** Older copies of the package do not know the inspector: their `main()` must fail before it starts a loop. */
function refuseOtherCopies(
  share: { mains: number },
  path: string,
  refuse: (error: CliError) => void,
): void {
  let { mains } = share;
  Object.defineProperty(share, "mains", {
    get: () => mains,
    set(count: number) {
      if (count > mains) {
        const error = new CliError(
          "failed",
          `${path} uses an older copy of lastcall, whose settings cannot be read: install the ` +
            "version of this command in the project",
        );
        refuse(error);
        throw error;
      }
      mains = count;
    },
  });
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
