import { settlesWithin } from "../../_promises.ts";
import { LostCalls } from "../_lost_calls.ts";
import type { Backend } from "./_backend.ts";
import type { CallWindow } from "./_calls.ts";
import type { Keys } from "./_keys.ts";
import { RECOVER } from "./scripts/pull.ts";

/** A frozen server does not hold up a stop for longer. */
const LAST_CHANCE_MS = 1_000;

/** A pull that may have taken messages which nobody got. */
interface LostPull extends CallWindow {
  readonly nonce: string;
}

/**
 * Pulls whose answer never came: the connection broke, or they were given up. What they took would be
 * hidden until its visibility timeout has passed; it is given back as soon as the server answers again,
 * and as long as such a pull may still reach the server.
 */
export class LostPulls {
  readonly #backend: Backend;
  readonly #keys: Keys;
  readonly #channel: string;
  readonly #name = crypto.randomUUID().slice(0, 13);
  readonly #lost: LostCalls<LostPull>;
  #last = 0;

  constructor(backend: Backend, keys: Keys, channel: string) {
    this.#backend = backend;
    this.#keys = keys;
    this.#channel = channel;
    const { clock, callTimeoutMs } = backend.options;
    this.#lost = new LostCalls(clock, callTimeoutMs); // later the script refuses it
  }

  /** Makes a pull under a nonce of its own, and remembers it when it fails. */
  async watch<T>(visibilityUs: number, pull: (nonce: string) => Promise<T>): Promise<T> {
    const nonce = `${this.#name}-${++this.#last}`;
    const { calls } = this.#backend;
    const { fromUs, untilUs } = calls.window;
    try {
      return await pull(nonce);
    } catch (error) {
      // By the server's clock, as it is known before and after.
      const late = calls.window.untilUs;
      this.#lost.add({
        nonce,
        fromUs: fromUs + visibilityUs,
        untilUs: Math.max(untilUs, late) + visibilityUs,
      });
      throw error;
    }
  }

  /** How long until something is to be given back. */
  get nextLookMs(): number {
    return this.#lost.nextLookMs;
  }

  /** Gives back what was lost. Fails when the server still does not answer. */
  async giveBack(all = false): Promise<void> {
    await this.#lost.look(async (pulls) => {
      for (const { nonce, fromUs, untilUs } of pulls) {
        const values = [this.#channel, nonce, fromUs, untilUs];
        const what = "give back what a lost answer took";
        await this.#backend.calls.run(what, RECOVER, this.#keys, values);
      }
    }, all);
  }

  /** The last chance. Where it is missed, the messages come back by their visibility timeout. */
  async giveBackLast(): Promise<void> {
    if (this.nextLookMs === Infinity) return;
    await settlesWithin(this.giveBack(true), LAST_CHANCE_MS, this.#backend.options.clock);
  }
}
