import { type Clock, systemClock } from "../clock.ts";

/**
 * The sign of life of one loop. The loop beats at every step; a watchdog looks at the age.
 *
 * @example
 * ```ts
 * import { Heartbeat } from "@lastcall/lastcall";
 * import { VirtualClock } from "@lastcall/lastcall/testing";
 *
 * const clock = new VirtualClock();
 * const heartbeat = new Heartbeat(clock);
 * await clock.advance(1_500);
 * console.assert(heartbeat.ageMs === 1_500);
 * heartbeat.beat();
 * console.assert(heartbeat.ageMs === 0);
 * ```
 */
export class Heartbeat {
  readonly #clock: Clock;
  #last: number;

  /** A heartbeat counts from its creation. */
  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.#last = clock.monotonic();
  }

  /** Says that the loop is alive. */
  beat(): void {
    this.#last = this.#clock.monotonic();
  }

  /** Says that the loop waits on purpose: for `ms` milliseconds no beat is expected. */
  rest(ms: number = Infinity): void {
    this.#last = this.#clock.monotonic() + ms;
  }

  /** Milliseconds since the last beat or the end of the rest; 0 while it rests. */
  get ageMs(): number {
    return Math.max(0, this.#clock.monotonic() - this.#last);
  }
}
