import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";

/** Returns the time that a stop reserves for releasing cancelled work: a tenth, at most 1 s. */
export function reserveOf(timeoutMs: number): number {
  return Math.min(1_000, timeoutMs / 10);
}

/**
 * Waits up to `timeoutMs` for `ended`, and returns whether it settled. Calls `cancel` when only the
 * reserve is left. Groups and loops cancel their work only here.
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

/** The absolute deadline that all stages of a stop share, so that their timeouts cannot add up. */
export class Deadline {
  /** How long the whole stop may take. */
  readonly timeoutMs: number;
  /** The time that each stage leaves for every later stage. */
  readonly reserveMs: number;
  readonly #clock: Clock;
  readonly #began: number;

  /** Starts the time. */
  constructor(timeoutMs: number, clock: Clock) {
    this.timeoutMs = timeoutMs;
    this.reserveMs = reserveOf(timeoutMs);
    this.#clock = clock;
    this.#began = clock.monotonic();
  }

  /** Milliseconds since the start. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#began;
  }

  /** Milliseconds until the deadline, never below zero. */
  get remainingMs(): number {
    return Math.max(0, this.timeoutMs - this.elapsedMs);
  }

  /** Returns the time for one stage when `later` more stages keep a reserve each. */
  budgetMs(later: number): number {
    return Math.max(0, this.remainingMs - later * this.reserveMs);
  }
}
