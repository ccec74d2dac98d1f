import { settlesWithin } from "../../_promises.ts";
import { LostCalls } from "../_lost_calls.ts";
import type { Backend } from "./_backend.ts";
import type { CallWindow } from "./_calls.ts";
import type { Keys } from "./_keys.ts";
import { RECOVER } from "./scripts/pull.ts";

/** How long a close waits for the release: a frozen server must not delay a shutdown. */
const CLOSE_TIMEOUT_MS = 1_000;

/** A pull that may have leased messages although its reply was lost. The window is that of the lease ends. */
interface LostPull extends CallWindow {
  readonly nonce: string;
}

/**
 * Releases the messages of pulls whose reply was lost, because the connection broke or the call timed out.
 * Otherwise they would stay hidden until their visibility timeout passes. The release runs as soon as the
 * server answers again, and repeatedly while such a pull may still reach the server.
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
    this.#lost = new LostCalls(clock, callTimeoutMs); // the script refuses later calls
  }

  /** Runs a pull with a new nonce, and records it when it fails. */
  async watch<T>(visibilityUs: number, pull: (nonce: string) => Promise<T>): Promise<T> {
    const nonce = `${this.#name}-${++this.#last}`;
    const { calls } = this.#backend;
    const { fromUs, untilUs } = calls.window;
    try {
      return await pull(nonce);
    } catch (error) {
      // The estimate of the server's clock may have changed since: use both.
      const late = calls.window.untilUs;
      this.#lost.add({
        nonce,
        fromUs: fromUs + visibilityUs,
        untilUs: Math.max(untilUs, late) + visibilityUs,
      });
      throw error;
    }
  }

  /** Returns the milliseconds until `release` is due; `Infinity` when no pull is lost. */
  get nextReleaseMs(): number {
    return this.#lost.nextLookMs;
  }

  /** Releases the messages of lost pulls that are due, or of all. Rejects when the server does not answer. */
  async release(all = false): Promise<void> {
    await this.#lost.look(async (pulls) => {
      for (const { nonce, fromUs, untilUs } of pulls) {
        const values = [this.#channel, nonce, fromUs, untilUs];
        const action = "release the messages of a lost pull";
        await this.#backend.calls.run(action, RECOVER, this.#keys, values);
      }
    }, all);
  }

  /** Tries a last time. If it fails, the messages reappear when their visibility timeout passes. */
  async releaseBeforeClose(): Promise<void> {
    if (this.nextReleaseMs === Infinity) return;
    await settlesWithin(this.release(true), CLOSE_TIMEOUT_MS, this.#backend.options.clock);
  }
}
