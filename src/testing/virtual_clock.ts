import { type Cancel, type Clock, nextTurn, sleepBySchedule, type SleepOptions } from "../clock.ts";

interface Timer {
  readonly at: number;
  readonly task: () => void;
}

/**
 * A clock that a test moves. Hours pass at once, and timers always run in the same order.
 *
 * @example
 * ```ts
 * import { VirtualClock } from "@lastcall/lastcall/testing";
 *
 * const clock = new VirtualClock();
 * let rang = false;
 * clock.schedule(60_000, () => rang = true);
 * await clock.advance(59_999);
 * console.assert(!rang);
 * await clock.advance(1);
 * console.assert(rang && clock.pending === 0);
 * ```
 */
export class VirtualClock implements Clock {
  readonly #timers = new Set<Timer>();
  #elapsed = 0;
  #wallOffset: number;

  /** `now` is the initial time of the wall clock. */
  constructor(now: number = Date.UTC(2030, 0, 1)) {
    this.#wallOffset = now;
  }

  /** Returns the wall-clock time in milliseconds since the Unix epoch. It changes with `advance`. */
  now(): number {
    return this.#wallOffset + this.#elapsed;
  }

  /** Returns the milliseconds since the clock was created. */
  monotonic(): number {
    return this.#elapsed;
  }

  /** Resolves when `ms` milliseconds were advanced. Rejects when `signal` aborts. */
  sleep(ms: number, options?: SleepOptions): Promise<void> {
    return sleepBySchedule(this, ms, options);
  }

  /** Calls `task` when `ms` milliseconds were advanced. Returns the function that cancels it. */
  schedule(ms: number, task: () => void): Cancel {
    const timer = { at: this.#elapsed + Math.max(0, ms), task };
    this.#timers.add(timer);
    // A timer that is due needs no advance.
    if (timer.at <= this.#elapsed) queueMicrotask(() => this.#fire(timer));
    return () => void this.#timers.delete(timer);
  }

  /** The number of waiting timers. It is 0 at the end of a test that leaves none behind. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Advances time by `ms` milliseconds. Timers run in the order of their due times. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms;
    await nextTurn();
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#elapsed = Math.max(this.#elapsed, timer.at);
      this.#fire(timer);
      await nextTurn();
    }
    this.#elapsed = end;
  }

  /**
   * Advances time from timer to timer until `promise` settles, and returns its value.
   *
   * @throws {Error} when no timer is left and the promise is pending.
   */
  async until<T>(promise: Promise<T>): Promise<T> {
    let open = true;
    const close = () => void (open = false);
    promise.then(close, close);
    for (await nextTurn(); open; await nextTurn()) {
      const timer = this.#next(Infinity);
      if (timer === undefined || timer.at === Infinity) {
        throw new Error(
          "The promise cannot settle: it is pending, and no timer is left. Check what it waits for",
        );
      }
      this.#elapsed = timer.at;
      this.#fire(timer);
    }
    return await promise;
  }

  /** Runs everything that is due now. */
  async settle(): Promise<void> {
    await this.advance(0);
  }

  /** Advances time without timers, as if the process was suspended by SIGSTOP. Then runs what is due. */
  async suspend(ms: number): Promise<void> {
    this.#elapsed += ms;
    await this.advance(0);
  }

  /** Adjusts the wall clock by `ms` milliseconds, as NTP does. Durations do not change. */
  stepWallClock(ms: number): void {
    this.#wallOffset += ms;
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
    }
    return next;
  }

  #fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.task();
  }
}
