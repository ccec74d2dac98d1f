import { backoffMs } from "../_backoff.ts";
import { checkCount, checkInterval } from "../_checks.ts";

/** How a failed loop is run again. */
export interface RestartOptions {
  /** More failures than this within `withinMs` and the group gives up. @default {5} */
  readonly maxRestarts?: number;
  /** The window for `maxRestarts`. @default {60_000} */
  readonly withinMs?: number;
  /** The pause before the first restart; it doubles with each. @default {100} */
  readonly minBackoffMs?: number;
  /** The longest pause. @default {30_000} */
  readonly maxBackoffMs?: number;
}

/** Decides whether and when a loop that failed is run again. One per loop. */
export class RestartBudget {
  readonly #maxRestarts: number;
  readonly #withinMs: number;
  readonly #minBackoffMs: number;
  readonly #maxBackoffMs: number;
  #failures: number[] = [];

  constructor(options: RestartOptions = {}) {
    this.#maxRestarts = checkCount("maxRestarts", options.maxRestarts ?? 5);
    this.#withinMs = checkInterval("withinMs", options.withinMs ?? 60_000);
    this.#minBackoffMs = checkInterval("minBackoffMs", options.minBackoffMs ?? 100);
    this.#maxBackoffMs = checkInterval("maxBackoffMs", options.maxBackoffMs ?? 30_000);
  }

  /** The pause before the next run after a failure at `now`, or undefined when it is enough. */
  nextPauseMs(now: number, random: () => number = Math.random): number | undefined {
    this.#failures = [...this.#failures.filter((at) => now - at < this.#withinMs), now];
    const recent = this.#failures.length;
    if (recent > this.#maxRestarts) return undefined;
    return backoffMs(recent, this.#minBackoffMs, this.#maxBackoffMs, random);
  }
}
