/**
 * The clock port. The core reads time and starts timers only through a {@linkcode Clock}, so that tests
 * with a `VirtualClock` run hours in milliseconds.
 *
 * @module
 */

import { delay } from "@std/async";

/** Cancels a scheduled task. Calling it twice, or after the task ran, does nothing. */
export type Cancel = () => void;

/** Options of {@linkcode Clock.sleep}. */
export interface SleepOptions {
  /** Ends the sleep early: `sleep` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** A source of time and timers. */
export interface Clock {
  /** Returns milliseconds since the Unix epoch, for time stamps. Steps when the machine's clock is set. */
  now(): number;
  /** Returns milliseconds that never decrease, for deadlines and durations. */
  monotonic(): number;
  /** Resolves after `ms` milliseconds, never for `Infinity`. */
  sleep(ms: number, options?: SleepOptions): Promise<void>;
  /** Calls `task` once after `ms` milliseconds, never for `Infinity`. Returns a function that cancels it. */
  schedule(ms: number, task: () => void): Cancel;
  /**
   * Resolves in the next turn of the event loop. A clock that decides when code runs, such as that of a
   * simulated process, has one. @default {the event loop of the runtime}
   */
  nextTurn?(): Promise<void>;
}

/** The longest timer of the runtimes; they run a longer one after 1 ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The clock of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, options) => delay(ms, options),
  schedule(ms, task) {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (leftMs: number) => {
      if (leftMs === Infinity) return;
      timer = leftMs <= MAX_TIMER_MS
        ? setTimeout(task, leftMs)
        : setTimeout(() => wait(leftMs - MAX_TIMER_MS), MAX_TIMER_MS);
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};

/** Implements `sleep` for a clock that has `schedule`. */
export async function sleepBySchedule(
  clock: Pick<Clock, "schedule">,
  ms: number,
  { signal }: SleepOptions = {},
): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.schedule(ms, () => {
      signal?.removeEventListener("abort", abort);
      resolve();
    });
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Resolves in the next turn of the event loop, or when `clock` says so. */
export function nextTurn(clock?: Clock): Promise<void> {
  return clock?.nextTurn?.() ?? new Promise((resolve) => {
    // Browsers have no setImmediate.
    if (typeof setImmediate === "function") setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
