/**
 * Time, as the package sees it. Nothing in the core reads a clock or starts a timer by itself: it
 * asks a {@linkcode Clock}, so that tests can run hours in a moment.
 *
 * @module
 */

import { delay } from "@std/async";

/** Removes what was scheduled. Calling it twice, or after the task ran, does nothing. */
export type Cancel = () => void;

/** Options of {@linkcode Clock.sleep}. */
export interface SleepOptions {
  /** Ends the sleep early; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Where time comes from. */
export interface Clock {
  /** Milliseconds since the Unix epoch, for time stamps. It may step when the machine's clock is set. */
  now(): number;
  /** Milliseconds that only ever grow, for deadlines and durations. */
  monotonic(): number;
  /** Resolves after `ms`. `Infinity` never does. */
  sleep(ms: number, options?: SleepOptions): Promise<void>;
  /** Calls `task` once after `ms` and returns its remover. `Infinity` never calls it. */
  schedule(ms: number, task: () => void): Cancel;
}

/** Runtimes turn a longer timer into one of 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, options) => delay(ms, options),
  schedule(ms, task) {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (leftMs: number) => {
      if (leftMs === Infinity) return;
      timer = leftMs <= LONGEST_TIMER_MS
        ? setTimeout(task, leftMs)
        : setTimeout(() => wait(leftMs - LONGEST_TIMER_MS), LONGEST_TIMER_MS);
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after everything that is ready to run has run. It takes no time of any clock. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    // Browsers have no setImmediate.
    if (typeof setImmediate === "function") setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
