import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";

/** The part of a stop's time that is reserved for releasing cancelled work: a tenth, at most 1 s. */
export function reserveOf(timeoutMs: number): number {
  return Math.min(1_000, timeoutMs / 10);
}

/**
 * Waits up to `timeoutMs` for `ended`, and returns whether it settled. Calls `cancel` when only the
 * reserve is left. Groups and loops cancel their work here and nowhere else.
 */
export async function endsWithin(
  ended: Promise<unknown>,
  timeoutMs: number,
  clock: Clock,
  cancel: () => void,
): Promise<boolean> {
  const reserveMs = reserveOf(timeoutMs);
  if (await settlesWithin(ended, timeoutMs - reserveMs, clock)) return true;
  cancel();
  return await settlesWithin(ended, reserveMs, clock);
}

/** One absolute point in time that a whole stop shares, so that nothing can multiply it. */
export class Deadline {
  /** How long the stop may take in all. */
  readonly timeoutMs: number;
  /** What each stage leaves for those after it. */
  readonly reserveMs: number;
  readonly #clock: Clock;
  readonly #began: number;

  /** The time runs from here. */
  constructor(timeoutMs: number, clock: Clock) {
    this.timeoutMs = timeoutMs;
    this.reserveMs = reserveOf(timeoutMs);
    this.#clock = clock;
    this.#began = clock.monotonic();
  }

  /** How long it runs already. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#began;
  }

  /** What is left, never below zero. */
  get remainingMs(): number {
    return Math.max(0, this.timeoutMs - this.elapsedMs);
  }

  /** What is left for one stage when `later` more stages keep a reserve each. */
  budgetMs(later: number): number {
    return Math.max(0, this.remainingMs - later * this.reserveMs);
  }
}
