import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError, isUnknownScript } from "./_errors.ts";
import type { RedisClient } from "./redis_client.ts";
import type { Script } from "./scripts/script.ts";

type Values = readonly (string | number)[];

/** How long after the last call `settle` waits at most. A frozen server must not delay a shutdown. */
const LINGER_MS = 1_000;

/** Expiry of the first call: the server's time is not known yet. */
const NO_EXPIRY_US = Number.MAX_SAFE_INTEGER;

/** The times, by the server's clock, between which the server may run a call. */
export interface CallWindow {
  readonly fromUs: number;
  readonly untilUs: number;
}

/**
 * Runs scripts, each with a timeout.
 *
 * A call that timed out cannot be cancelled: it may wait in a buffer until the server wakes up. So each
 * call carries an expiry time by the server's clock, after which the script does nothing. The engine
 * derives the server's clock from the last reply; the estimate is late by at most the latency of that
 * reply. If the server refuses a call that has not timed out here, the engine repeats it with the time
 * from the refusal.
 */
export class Calls {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #pending = new Set<Promise<unknown>>();
  #lastCallAtUs = 0;
  /** The server's clock minus the local clock, in microseconds. */
  #offsetUs: number | undefined;

  constructor(client: RedisClient, clock: Clock, timeoutMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Returns the window in which the server may run a call that starts now. */
  get window(): CallWindow {
    const nowUs = this.#nowUs();
    return {
      fromUs: this.#serverTime(nowUs),
      untilUs: this.#serverTime(nowUs + this.#timeoutMs * 1_000),
    };
  }

  /** Runs a script and resolves with its reply. */
  async run(
    action: string,
    script: Script,
    keys: readonly string[],
    args: Values,
  ): Promise<unknown[]> {
    const call = this.#withTimeout(
      action,
      (endsAtUs) => this.#runUntilAccepted(action, script, keys, args, endsAtUs),
    );
    this.#pending.add(call);
    try {
      return await call;
    } catch (error) {
      throw connectionError(action, error);
    } finally {
      this.#pending.delete(call);
    }
  }

  /** Resolves when no call is pending, or at the latest 1 s after the last call started. */
  async settle(): Promise<void> {
    const leftMs = LINGER_MS - (this.#nowUs() - this.#lastCallAtUs) / 1_000;
    await settlesWithin(this.#allSettled(), Math.max(0, leftMs), this.#clock);
  }

  async #allSettled(): Promise<void> {
    // A caller that has just received messages releases them within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  async #withTimeout<T>(action: string, act: (endsAtUs: number) => Promise<T>): Promise<T> {
    let cancel: Cancel | undefined;
    this.#lastCallAtUs = this.#nowUs();
    const endsAtUs = this.#lastCallAtUs + this.#timeoutMs * 1_000;
    const expired = new Promise<never>((_, reject) => {
      cancel = this.#clock.schedule(this.#timeoutMs, () => reject(this.#timeoutError(action)));
    });
    try {
      return await Promise.race([act(endsAtUs), expired]);
    } finally {
      cancel?.();
    }
  }

  async #runUntilAccepted(
    action: string,
    script: Script,
    keys: readonly string[],
    args: Values,
    endsAtUs: number,
  ): Promise<unknown[]> {
    for (;;) {
      const values = [this.#serverTime(endsAtUs), ...args];
      const reply = await this.#evaluate(script, keys, values) as [number, ...unknown[]];
      this.#offsetUs = reply[0] - this.#nowUs();
      if (reply.length > 1) return reply;
      if (this.#nowUs() >= endsAtUs) throw this.#timeoutError(action);
    }
  }

  #timeoutError(action: string): MailboxConnectionError {
    return new MailboxConnectionError(
      `Redis did not answer within ${this.#timeoutMs} ms when asked to ${action}: it is overloaded, ` +
        "frozen or unreachable. Check the server; the next call tries again",
    );
  }

  async #evaluate(script: Script, keys: readonly string[], args: Values): Promise<unknown> {
    const sha = await script.sha();
    try {
      return await this.#client.evalsha(sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!isUnknownScript(error)) throw error;
      return await this.#client.eval(script.text, keys.length, ...keys, ...args);
    }
  }

  #serverTime(us: number): number {
    return this.#offsetUs === undefined ? NO_EXPIRY_US : Math.floor(us + this.#offsetUs);
  }

  #nowUs(): number {
    return this.#clock.monotonic() * 1_000;
  }
}
