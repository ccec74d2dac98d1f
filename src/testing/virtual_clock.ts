import { type Cancel, type Clock, nextTurn, type SleepOptions } from "../clock.ts";

interface Timer {
  readonly at: number;
  readonly task: () => void;
}

/**
 * A clock that stands still until it is told to move, so that tests run hours in a moment and always
 * in the same order.
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

  /** `now` is the wall clock's first reading. */
  constructor(now: number = Date.UTC(2030, 0, 1)) {
    this.#wallOffset = now;
  }

  /** Wall-clock time in milliseconds since the Unix epoch; stands still until `advance`. */
  now(): number {
    return this.#wallOffset + this.#elapsed;
  }

  /** Milliseconds since the clock was made. */
  monotonic(): number {
    return this.#elapsed;
  }

  /** Resolves when enough time was advanced; rejects when `signal` aborts. */
  async sleep(ms: number, { signal }: SleepOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const abort = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.schedule(ms, () => {
        signal?.removeEventListener("abort", abort);
        resolve();
      });
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  /** Has the task called once enough time was advanced; returns what takes it back. */
  schedule(ms: number, task: () => void): Cancel {
    const timer = { at: this.#elapsed + Math.max(0, ms), task };
    this.#timers.add(timer);
    // What is due already needs no advance.
    if (timer.at <= this.#elapsed) queueMicrotask(() => this.#fire(timer));
    return () => void this.#timers.delete(timer);
  }

  /** How many timers wait. A test that left nothing behind ends with 0. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Moves time on by `ms`; every timer that falls due runs at its own moment, in order. */
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

  /** Moves time on from timer to timer until `promise` settles, and returns what it gives. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let open = true;
    const close = () => void (open = false);
    promise.then(close, close);
    for (await nextTurn(); open; await nextTurn()) {
      const timer = this.#next(Infinity);
      if (timer === undefined || timer.at === Infinity) {
        throw new Error("The promise cannot settle: no timer is left to move the time on");
      }
      this.#elapsed = timer.at;
      this.#fire(timer);
    }
    return await promise;
  }

  /** Lets everything run that needs no time to pass. */
  async settle(): Promise<void> {
    await this.advance(0);
  }

  /** Suspends the process, as SIGSTOP does: time passes, and timers run late. */
  async suspend(ms: number): Promise<void> {
    this.#elapsed += ms;
    await this.advance(0);
  }

  /** Sets the wall clock by `ms`, as an administrator or NTP does. Durations do not notice. */
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
