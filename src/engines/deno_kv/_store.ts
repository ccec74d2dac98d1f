import { errorText } from "../../errors.ts";
import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import {
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
} from "../../mailbox/errors.ts";
import type { Kv, KvAtomic, KvEntry, KvKey, KvSelector } from "./kv.ts";

/** A close waits for calls that are younger: longer, and a store out of reach would hold up a stop. */
const LINGER_MS = 1_000;

/** As many as Deno KV gets at once. */
const MAX_KEYS = 10;

/** How often a change is tried that others have crossed. */
const ATTEMPTS = 40;
const LONGEST_PAUSE_MS = 50;

/** Whoever has the file for itself has it for about that long. */
const LONGEST_TURN_MS = 10;

/** Calls of a store, each within its time. */
export class Store {
  readonly clock: Clock;
  readonly #timeoutMs: number;
  readonly #own: boolean;
  readonly #pending = new Set<Promise<unknown>>();
  #kv: Kv | undefined;
  #lastCallAt = -Infinity;

  constructor(kv: Kv, own: boolean, clock: Clock, timeoutMs: number) {
    this.#kv = kv;
    this.#own = own;
    this.clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  get(what: string, key: KvKey): Promise<KvEntry> {
    return this.#run(what, (kv) => kv.get(key));
  }

  /** What is at these keys, in their order. */
  async getAll(what: string, keys: readonly KvKey[]): Promise<KvEntry[]> {
    const parts: (readonly KvKey[])[] = [];
    for (let i = 0; i < keys.length; i += MAX_KEYS) parts.push(keys.slice(i, i + MAX_KEYS));
    const some = await Promise.all(
      parts.map((part) => this.#run(what, (kv) => kv.getMany(part))),
    );
    return some.flat();
  }

  /** What is selected, until `enough` says so. */
  list(
    what: string,
    selector: KvSelector,
    limit: number = Infinity,
    enough: (entry: KvEntry) => boolean = () => false,
  ): Promise<KvEntry[]> {
    return this.#run(what, async (kv) => {
      const entries: KvEntry[] = [];
      const options = limit === Infinity ? {} : { limit };
      for await (
        const entry of kv.list(selector, { ...options, batchSize: Math.min(limit, 100) })
      ) {
        entries.push(entry);
        if (enough(entry)) break;
      }
      return entries;
    });
  }

  /** Makes a change; nothing when something that it relies on has changed. */
  async commit(what: string, prepare: (atomic: KvAtomic) => void): Promise<string | undefined> {
    const result = await this.#run(what, (kv) => {
      const atomic = kv.atomic();
      prepare(atomic);
      return atomic.commit();
    });
    return result.ok ? result.versionstamp : undefined;
  }

  /** Tries until `attempt` gives something: others may be quicker, but not always. */
  async insist<T>(what: string, attempt: () => Promise<T | undefined>): Promise<T> {
    for (let i = 1; i <= ATTEMPTS; i++) {
      const result = await attempt();
      if (result !== undefined) return result;
      await this.clock.sleep(Math.random() * Math.min(2 ** i, LONGEST_PAUSE_MS));
    }
    throw new MailboxConnectionError(
      `Deno KV failed to ${what}: others were quicker ${ATTEMPTS} times; try again`,
    );
  }

  /** Tells of changes of a key. */
  watch(key: KvKey): ReadableStream<unknown> | undefined {
    return this.#kv?.watch([key]);
  }

  /** Resolves when no call is under way, or when the youngest has taken too long; then there are no more. */
  async close(): Promise<void> {
    const leftMs = LINGER_MS - (this.clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.clock);
    const kv = this.#kv;
    this.#kv = undefined;
    if (this.#own) kv?.close();
  }

  async #settled(): Promise<void> {
    // Whoever was handed something at this very moment gives it back within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  async #run<T>(what: string, act: (kv: Kv) => Promise<T>): Promise<T> {
    const call = this.#withinTime(what, (expired) => this.#patiently(act, expired));
    this.#pending.add(call);
    try {
      return await call;
    } catch (error) {
      if (isMailboxError(error)) throw error;
      const text = error instanceof Error ? error.message : errorText(error);
      throw new MailboxConnectionError(`Deno KV failed to ${what}: ${text}`, { cause: error });
    } finally {
      this.#pending.delete(call);
    }
  }

  /** Processes that share a file take turns: whoever is not let in has changed nothing, and tries again. */
  async #patiently<T>(act: (kv: Kv) => Promise<T>, over: () => boolean): Promise<T> {
    for (;;) {
      const kv = this.#kv;
      if (kv === undefined) throw new MailboxClosedError("Deno KV is closed here");
      try {
        return await act(kv);
      } catch (error) {
        if (!/database is (locked|busy)/.test(errorText(error)) || over()) throw error;
      }
      await this.clock.sleep(1 + Math.random() * LONGEST_TURN_MS);
    }
  }

  async #withinTime<T>(what: string, act: (over: () => boolean) => Promise<T>): Promise<T> {
    let cancel: Cancel | undefined;
    let over = false;
    this.#lastCallAt = this.clock.monotonic();
    const expired = new Promise<never>((_, reject) => {
      cancel = this.clock.schedule(this.#timeoutMs, () => {
        over = true;
        reject(
          new MailboxConnectionError(
            `Deno KV did not answer within ${this.#timeoutMs} ms when asked to ${what}; it is tried ` +
              "again with the next call",
          ),
        );
      });
    });
    try {
      return await Promise.race([act(() => over), expired]);
    } finally {
      cancel?.();
    }
  }
}
