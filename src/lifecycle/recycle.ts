import { checkCount, checkInterval, show } from "../_checks.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Runtime } from "../runtime.ts";
import type { StopReason } from "./group_events.ts";
import type { Resource } from "./resources.ts";
import { NO_COUNTS, type Runnable } from "./runnable.ts";

/**
 * When a group ends itself gracefully, so that a supervisor starts a new process. Use it against slow leaks of
 * memory. The exit code is 0: the supervisor must restart the process whatever its exit code.
 */
export interface RecycleOptions {
  /** Stops after the loops have settled this many messages. The group may settle some more. */
  readonly afterMessages?: number;
  /** Stops when the run has lasted this long, in milliseconds. */
  readonly afterMs?: number;
  /** Stops when the process uses more resident memory than this, in megabytes (1 000 000 bytes). */
  readonly overMemoryMb?: number;
}

/** The time between two checks of counts and memory. */
const CHECK_MS = 1_000;

/** Returns the options if they are valid. */
export function checkRecycle(options: RecycleOptions): RecycleOptions {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`Invalid recycle: expected an object, got ${show(options)}`);
  }
  const { afterMessages, afterMs, overMemoryMb } = options;
  if (afterMessages !== undefined) checkCount("recycle.afterMessages", afterMessages, 1);
  if (afterMs !== undefined) checkInterval("recycle.afterMs", afterMs);
  if (overMemoryMb !== undefined) checkInterval("recycle.overMemoryMb", overMemoryMb);
  return options;
}

/** What {@linkcode recycleResource} watches. */
interface Watched {
  readonly recycle: RecycleOptions | undefined;
  readonly loops: readonly Runnable[];
  readonly clock: Clock;
  readonly runtime: () => Runtime;
}

/** Returns a resource that requests the stop of its group; none without options. */
export function recycleResource(
  { recycle, loops, clock, runtime }: Watched,
  requestStop: (reason: StopReason) => void,
): readonly Resource[] {
  if (recycle === undefined) return [];
  const { afterMessages = Infinity, afterMs = Infinity, overMemoryMb = Infinity } = recycle;
  let cancel: Cancel = () => {};
  let startedAt = 0;

  const reasonNow = (): string | undefined => {
    const settled = loops.reduce((sum, { counts = NO_COUNTS }) => {
      return sum + counts.acknowledged + counts.nacked + counts.deadLettered;
    }, 0);
    if (settled >= afterMessages) return `${settled} messages were settled`;
    const runMs = clock.monotonic() - startedAt;
    if (runMs >= afterMs) return `the run has lasted ${Math.round(runMs)} ms`;
    const memoryMb = overMemoryMb === Infinity ? 0 : (runtime().memoryBytes?.() ?? 0) / 1e6;
    return memoryMb > overMemoryMb ? `the process uses ${Math.round(memoryMb)} MB` : undefined;
  };
  const check = () => {
    const why = reasonNow();
    if (why !== undefined) return requestStop({ kind: "recycle", text: `recycling: ${why}` });
    const leftMs = Math.max(0, startedAt + afterMs - clock.monotonic());
    const polls = afterMessages !== Infinity || overMemoryMb !== Infinity;
    if (polls || leftMs !== Infinity) {
      cancel = clock.schedule(polls ? Math.min(CHECK_MS, leftMs) : leftMs, check);
    }
  };
  return [{
    name: "recycling",
    start() {
      startedAt = clock.monotonic();
      check();
    },
    stop: () => cancel(),
  }];
}
