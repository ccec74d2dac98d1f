import { type Clock, nextTurn } from "./clock.ts";

/** How long timers, signals and I/O wait at most for work that never waits for I/O itself. */
const MAX_TURN_MS = 5;

/** The same limit as a number of steps, for clocks that stand still. */
const MAX_STEPS = 1_000;

/** One instance per clock, so that the limit holds for all loops together. */
const instances = new WeakMap<Clock, EventLoopYield>();

/**
 * Yields to the event loop. Work that waits only for promises of this process keeps the microtask queue
 * full: without a yield no timer fires and no signal arrives.
 */
export class EventLoopYield {
  readonly #clock: Clock;
  #beganAt = 0;
  #steps = 0;
  /** Resolves in the next turn of the event loop. */
  #over: Promise<void> | undefined;

  /** Returns the instance for this clock. */
  static of(clock: Clock): EventLoopYield {
    let instance = instances.get(clock);
    if (instance === undefined) instances.set(clock, instance = new EventLoopYield(clock));
    return instance;
  }

  private constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves at the end of the current turn. */
  end(): Promise<void> {
    if (this.#over === undefined) {
      this.#beganAt = this.#clock.monotonic();
      this.#steps = 0;
      this.#over = nextTurn(this.#clock).then(() => void (this.#over = undefined));
    }
    return this.#over;
  }

  /**
   * Returns undefined while the current turn may go on, otherwise a promise for the next turn. Pass the time of the
   * monotonic clock if it has just been read.
   */
  next(now: number = this.#clock.monotonic()): Promise<void> | undefined {
    if (this.#over === undefined) {
      this.end();
      return undefined;
    }
    if (++this.#steps < MAX_STEPS && now - this.#beganAt < MAX_TURN_MS) return undefined;
    return this.#over;
  }
}
