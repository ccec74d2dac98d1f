import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError, isUnknownScript } from "./_errors.ts";
import type { RedisClient } from "./redis_client.ts";
import type { Script } from "./scripts/script.ts";

type Values = readonly (string | number)[];

/** A close waits for calls that are younger: longer, and a frozen server would hold up a stop. */
const LINGER_MS = 1_000;

/** For the first call, which is made when the server's time is not known yet. */
const NEVER_US = Number.MAX_SAFE_INTEGER;

/** Between which times, by the server's clock, a call can have been made. */
export interface CallWindow {
  readonly fromUs: number;
  readonly untilUs: number;
}

/**
 * Calls of scripts, each within its time.
 *
 * Whoever gives up a call cannot take it back: it may lie in a buffer and be made when the server wakes
 * up. So each call carries the time, by the server's clock, until which it is wanted, and makes nothing
 * of itself after that. The server's time is known from the last answer, never too late by more than
 * that took on its way; a call that is refused although it is wanted is made again with the time that
 * the refusal brings.
 */
export class Calls {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #pending = new Set<Promise<unknown>>();
  #lastCallAtUs = 0;
  /** The server's clock minus ours. */
  #offsetUs: number | undefined;

  constructor(client: RedisClient, clock: Clock, timeoutMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** When a call that is made now would be made, seen from the server. */
  get window(): CallWindow {
    const nowUs = this.#nowUs();
    return {
      fromUs: this.#byServer(nowUs),
      untilUs: this.#byServer(nowUs + this.#timeoutMs * 1_000),
    };
  }

  /** Runs a script and resolves with what it did. */
  async run(
    what: string,
    script: Script,
    keys: readonly string[],
    args: Values,
  ): Promise<unknown[]> {
    const call = this.#withinTime(
      what,
      (endsAtUs) => this.#insist(what, script, keys, args, endsAtUs),
    );
    this.#pending.add(call);
    try {
      return await call;
    } catch (error) {
      throw connectionError(what, error);
    } finally {
      this.#pending.delete(call);
    }
  }

  /** Resolves when no call is under way, or when the youngest has taken too long. */
  async settle(): Promise<void> {
    const leftMs = LINGER_MS - (this.#nowUs() - this.#lastCallAtUs) / 1_000;
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.#clock);
  }

  async #settled(): Promise<void> {
    // Whoever was handed something at this very moment gives it back within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  async #withinTime<T>(what: string, act: (endsAtUs: number) => Promise<T>): Promise<T> {
    let cancel: Cancel | undefined;
    this.#lastCallAtUs = this.#nowUs();
    const endsAtUs = this.#lastCallAtUs + this.#timeoutMs * 1_000;
    const expired = new Promise<never>((_, reject) => {
      cancel = this.#clock.schedule(this.#timeoutMs, () => reject(this.#noAnswer(what)));
    });
    try {
      return await Promise.race([act(endsAtUs), expired]);
    } finally {
      cancel?.();
    }
  }

  async #insist(
    what: string,
    script: Script,
    keys: readonly string[],
    args: Values,
    endsAtUs: number,
  ): Promise<unknown[]> {
    for (;;) {
      const values = [this.#byServer(endsAtUs), ...args];
      const reply = await this.#evaluate(script, keys, values) as [number, ...unknown[]];
      this.#offsetUs = reply[0] - this.#nowUs();
      if (reply.length > 1) return reply;
      if (this.#nowUs() >= endsAtUs) throw this.#noAnswer(what);
    }
  }

  #noAnswer(what: string): MailboxConnectionError {
    return new MailboxConnectionError(
      `Redis did not answer within ${this.#timeoutMs} ms when asked to ${what}; is it overloaded or ` +
        "frozen? It is tried again with the next call",
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

  #byServer(us: number): number {
    return this.#offsetUs === undefined ? NEVER_US : Math.floor(us + this.#offsetUs);
  }

  #nowUs(): number {
    return this.#clock.monotonic() * 1_000;
  }
}
