// One simulated process: its clock, its runtime, and the faults that happen to it as a whole.

import { type Cancel, type Clock, sleepBySchedule, type SleepOptions } from "../src/clock.ts";
import { FakeRuntime } from "../src/testing/fake_runtime.ts";
import type { Scheduler } from "./scheduler.ts";

/** When the simulation begins, in milliseconds since the Unix epoch. */
export const EPOCH: number = Date.UTC(2030, 0, 1);

/** How the clocks of a process differ from true time. */
export interface ClockError {
  /** How far the wall clock is ahead, in milliseconds. */
  readonly skewMs: number;
  /** How fast its timers and its monotonic clock run; 1 is right. */
  readonly rate: number;
}

/** The runtime of a simulated process. */
class SimulatedRuntime extends FakeRuntime {
  /** Called when the process ends itself by SIGKILL. */
  onKill: () => void = () => {};

  override kill(): void {
    super.kill();
    this.onKill();
  }
}

/**
 * A process. It learns what happens outside only by tasks that `later` runs: none runs while the process is
 * frozen, and none ever runs after its end. Promises that nothing settles any more are its death.
 */
export class Host implements Clock {
  readonly name: string;
  readonly runtime: SimulatedRuntime = new SimulatedRuntime({ globals: {} });
  readonly #scheduler: Scheduler;
  readonly #bootedAt: number;
  readonly #error: ClockError;
  #jumpedMs = 0;
  /** The tasks that were due while the process was frozen. */
  #held: (() => void)[] | undefined;
  /** When the process ended. */
  diedAt: number = Infinity;
  /** The end of the current freeze, so that overlapping ones add up to the longest. */
  #frozenUntil = 0;
  /** How long the process was frozen until now. */
  #frozenMs = 0;
  #frozenAt = 0;

  constructor(name: string, scheduler: Scheduler, error: ClockError) {
    this.name = name;
    this.#scheduler = scheduler;
    this.#bootedAt = scheduler.now;
    this.#error = error;
  }

  get dead(): boolean {
    return this.diedAt < Infinity;
  }

  get frozen(): boolean {
    return this.#held !== undefined;
  }

  /** How long the process was frozen, in milliseconds. */
  get frozenMs(): number {
    return this.#frozenMs + (this.frozen ? this.#scheduler.now - this.#frozenAt : 0);
  }

  now(): number {
    return Math.floor(EPOCH + this.#scheduler.now + this.#error.skewMs + this.#jumpedMs);
  }

  monotonic(): number {
    return (this.#scheduler.now - this.#bootedAt) * this.#error.rate;
  }

  schedule(ms: number, task: () => void): Cancel {
    return this.later(ms / this.#error.rate, task);
  }

  sleep(ms: number, options?: SleepOptions): Promise<void> {
    return sleepBySchedule(this, ms, options);
  }

  nextTurn(): Promise<void> {
    return new Promise((resolve) => void this.later(0, resolve));
  }

  /** Runs `task` in this process after `ms` milliseconds of true time. */
  later(ms: number, task: () => void): Cancel {
    let cancelled = false;
    const run = () => {
      if (cancelled || this.dead) return;
      if (this.#held === undefined) task();
      else this.#held.push(run);
    };
    const cancel = this.#scheduler.after(ms, run);
    return () => {
      cancelled = true;
      cancel();
    };
  }

  /** Suspends the process for `ms` milliseconds, as SIGSTOP and SIGCONT or a blocked event loop do. */
  freeze(ms: number): void {
    if (this.dead) return;
    if (!this.frozen) this.#frozenAt = this.#scheduler.now;
    this.#held ??= [];
    this.#frozenUntil = Math.max(this.#frozenUntil, this.#scheduler.now + ms);
    this.#scheduler.after(ms, () => {
      if (this.#scheduler.now >= this.#frozenUntil) this.#thaw();
    });
  }

  /** Ends the process. */
  kill(): void {
    this.diedAt = Math.min(this.diedAt, this.#scheduler.now);
    this.#held = undefined;
  }

  /** Sets the wall clock forward or back. */
  jump(ms: number): void {
    this.#jumpedMs += ms;
  }

  #thaw(): void {
    const held = this.#held;
    this.#held = undefined;
    this.#frozenMs += this.#scheduler.now - this.#frozenAt;
    for (const task of held ?? []) this.#scheduler.after(0, task);
  }
}
