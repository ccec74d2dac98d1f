import {
  type Cancel,
  type Clock,
  nextTurn,
  sleepBySchedule,
  type SleepOptions,
} from "../../src/clock.ts";

interface Timer {
  readonly at: number;
  readonly task: () => void;
}

/**
 * A clock that jumps. Timers that are due within a jump run at its end, so they are late, as on a machine that
 * sleeps. Years with a timer every few seconds take as long as the number of jumps.
 */
export class TickClock implements Clock {
  readonly #start: number;
  readonly #timers = new Set<Timer>();
  #now: number;

  constructor(start: number) {
    this.#start = this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now - this.#start;
  }

  get pending(): number {
    return this.#timers.size;
  }

  sleep(ms: number, options?: SleepOptions): Promise<void> {
    return sleepBySchedule(this, ms, options);
  }

  schedule(ms: number, task: () => void): Cancel {
    const timer = { at: this.#now + ms, task };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Jumps to a time, and resolves when everything that was due has run. */
  async jump(to: number): Promise<void> {
    await nextTurn();
    this.#now = to;
    for (const timer of [...this.#timers].sort((a, b) => a.at - b.at)) {
      if (timer.at <= to && this.#timers.delete(timer)) timer.task();
    }
    await nextTurn();
    await nextTurn();
  }
}
