import { type Clock, nextTurn } from "../../clock.ts";

/** Timers, signals and requests wait no longer than this. */
const LONGEST_TURN_MS = 5;

/**
 * Lets others in. Calls that never wait for anything outside could follow one another for good, and no
 * timer and no signal would ever be heard.
 */
export class Turns {
  readonly #clock: Clock;
  #beganAt: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves within this turn of the event loop, or in the next one when this has lasted too long. */
  async next(): Promise<void> {
    if (this.#beganAt === undefined) {
      this.#beganAt = this.#clock.monotonic();
      void nextTurn().then(() => this.#beganAt = undefined);
    } else if (this.#clock.monotonic() - this.#beganAt > LONGEST_TURN_MS) {
      await nextTurn();
    }
  }
}
