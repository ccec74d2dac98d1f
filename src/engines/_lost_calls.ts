import type { Clock } from "../clock.ts";

/** How often is looked for what a call has done since. */
const LOOK_AGAIN_MS = 500;

interface Lost<C> {
  readonly call: C;
  /** Until then it may still reach the server. */
  readonly arrivesBefore: number;
  lookAt: number;
}

/**
 * Calls whose answers were lost. One that was given up with its connection may lie in a buffer and reach
 * the server later than the calls after it, so what it has done is looked for more than once.
 */
export class LostCalls<C> {
  readonly #clock: Clock;
  readonly #lateMs: number;
  #lost: Lost<C>[] = [];

  /** `lateMs` is how long a call may take to reach the server after it was given up. */
  constructor(clock: Clock, lateMs: number) {
    this.#clock = clock;
    this.#lateMs = lateMs;
  }

  add(call: C): void {
    const now = this.#clock.monotonic();
    this.#lost.push({ call, arrivesBefore: now + this.#lateMs, lookAt: now });
  }

  /** How long until it is time to look; `Infinity` when nothing was lost. */
  get nextLookMs(): number {
    const at = this.#lost.reduce((first, { lookAt }) => Math.min(first, lookAt), Infinity);
    return Math.max(0, at - this.#clock.monotonic());
  }

  /** Has `undo` look for those whose time has come; with `all` for every one. */
  async look(undo: (calls: readonly C[]) => Promise<void>, all = false): Promise<void> {
    const now = this.#clock.monotonic();
    const due = this.#lost.filter(({ lookAt }) => all || lookAt <= now);
    if (due.length === 0) return;
    await undo(due.map(({ call }) => call));
    for (const lost of due) lost.lookAt = now + LOOK_AGAIN_MS;
    this.#lost = this.#lost.filter((lost) => !due.includes(lost) || now < lost.arrivesBefore);
  }
}
