import { type Clock, nextTurn } from "./clock.ts";

/** Timers, signals and I/O wait no longer than this for work that never waits itself. */
const LONGEST_TURN_MS = 5;

/** The same bound in steps, for clocks that stand still or step back. */
const MOST_STEPS = 1_000;

/** All work that lives by one clock shares its turns, so that many loops do not add up. */
const turns = new WeakMap<Clock, Turns>();

/**
 * Yields to the event loop. Work that only ever waits for promises of this process would otherwise run
 * for good: no timer would fire and no signal would be heard.
 */
export class Turns {
  readonly #clock: Clock;
  #beganAt = 0;
  #steps = 0;
  /** Resolves when the current turn of the event loop is over. */
  #over: Promise<void> | undefined;

  /** Returns the turns of this clock. */
  static of(clock: Clock): Turns {
    let own = turns.get(clock);
    if (own === undefined) turns.set(clock, own = new Turns(clock));
    return own;
  }

  private constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns undefined while the turn may go on, otherwise a promise that resolves in the next one. */
  next(): Promise<void> | undefined {
    if (this.#over === undefined) {
      this.#beganAt = this.#clock.now();
      this.#steps = 0;
      this.#over = nextTurn().then(() => void (this.#over = undefined));
      return undefined;
    }
    // The wall clock is the cheaper one to read; should it step, the steps are the bound.
    if (++this.#steps < MOST_STEPS && this.#clock.now() - this.#beganAt < LONGEST_TURN_MS) {
      return undefined;
    }
    return this.#over;
  }
}
