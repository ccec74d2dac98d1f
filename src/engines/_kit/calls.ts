import { settlesWithin } from "../../_promises.ts";
import { type Clock, nextTurn } from "../../clock.ts";

/** The calls to a server that have no answer yet. */
export class PendingCalls {
  readonly #calls = new Set<Promise<unknown>>();

  /** Counts `call` as pending until it settles, and returns its result. */
  async track<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Resolves when no call is pending, at the latest after `timeoutMs`: a server may be frozen. */
  async settled(timeoutMs: number, clock: Clock): Promise<void> {
    const settle = async () => {
      do {
        await Promise.allSettled(this.#calls);
        await nextTurn(); // a caller that has just received messages releases them in this turn
      } while (this.#calls.size > 0);
    };
    await settlesWithin(settle(), timeoutMs, clock);
  }
}

/** How often a lost call is checked for effects, in milliseconds. */
const CHECK_INTERVAL_MS = 500;

interface Lost<C> {
  readonly call: C;
  /** Until then the call may still reach the server. */
  readonly arrivesBefore: number;
  checkAt: number;
}

/**
 * Calls whose answers were lost. A call that was given up with its connection may still be in a buffer
 * and reach the server after later calls, so its effects are checked more than once.
 */
export class LostCalls<C> {
  readonly #clock: Clock;
  readonly #lateMs: number;
  #lost: Lost<C>[] = [];

  /** `lateMs` is how long a call may take to reach the server after it was given up, in milliseconds. */
  constructor(clock: Clock, lateMs: number) {
    this.#clock = clock;
    this.#lateMs = lateMs;
  }

  add(call: C): void {
    const now = this.#clock.monotonic();
    this.#lost.push({ call, arrivesBefore: now + this.#lateMs, checkAt: now });
  }

  /** Milliseconds until the next check; `Infinity` when no call was lost. */
  get nextLookMs(): number {
    const at = this.#lost.reduce((first, { checkAt }) => Math.min(first, checkAt), Infinity);
    return Math.max(0, at - this.#clock.monotonic());
  }

  /** Calls `undo` with the lost calls that are due for a check, or with all of them. */
  async look(undo: (calls: readonly C[]) => Promise<void>, all = false): Promise<void> {
    const now = this.#clock.monotonic();
    const due = this.#lost.filter(({ checkAt }) => all || checkAt <= now);
    if (due.length === 0) return;
    await undo(due.map(({ call }) => call));
    for (const lost of due) lost.checkAt = now + CHECK_INTERVAL_MS;
    this.#lost = this.#lost.filter((lost) => !due.includes(lost) || now < lost.arrivesBefore);
  }
}
