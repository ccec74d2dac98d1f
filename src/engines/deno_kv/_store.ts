import { errorText } from "../../errors.ts";
import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import {
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
} from "../../mailbox/errors.ts";
import type { Kv, KvAtomic, KvEntry, KvKey, KvSelector } from "./kv.ts";

/** How long after the last call `close` waits at most. An unreachable store must not delay a shutdown. */
const LINGER_MS = 1_000;

/** The maximum number of keys of one `getMany`. */
const MAX_KEYS = 10;

/** How often a change is tried that conflicts with other processes. */
const ATTEMPTS = 40;
const MAX_CONFLICT_DELAY_MS = 50;

/** About how long another process locks the file. */
const MAX_BUSY_DELAY_MS = 10;

/** Calls a store, each call with a timeout. */
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

  get(action: string, key: KvKey): Promise<KvEntry> {
    return this.#run(action, (kv) => kv.get(key));
  }

  /** Returns the entries of these keys, in their order. */
  async getAll(action: string, keys: readonly KvKey[]): Promise<KvEntry[]> {
    const parts: (readonly KvKey[])[] = [];
    for (let i = 0; i < keys.length; i += MAX_KEYS) parts.push(keys.slice(i, i + MAX_KEYS));
    const some = await Promise.all(
      parts.map((part) => this.#run(action, (kv) => kv.getMany(part))),
    );
    return some.flat();
  }

  /** Returns the selected entries, until `enough` returns true. */
  list(
    action: string,
    selector: KvSelector,
    limit: number = Infinity,
    enough: (entry: KvEntry) => boolean = () => false,
  ): Promise<KvEntry[]> {
    return this.#run(action, async (kv) => {
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

  /** Commits a change. Resolves with its versionstamp, or with undefined when a check failed. */
  async commit(action: string, prepare: (atomic: KvAtomic) => void): Promise<string | undefined> {
    const result = await this.#run(action, (kv) => {
      const atomic = kv.atomic();
      prepare(atomic);
      return atomic.commit();
    });
    return result.ok ? result.versionstamp : undefined;
  }

  /** Repeats `attempt` until it resolves with a value; undefined means a conflict with another process. */
  async retryConflicts<T>(action: string, attempt: () => Promise<T | undefined>): Promise<T> {
    for (let i = 1; i <= ATTEMPTS; i++) {
      const result = await attempt();
      if (result !== undefined) return result;
      await this.clock.sleep(Math.random() * Math.min(2 ** i, MAX_CONFLICT_DELAY_MS));
    }
    throw new MailboxConnectionError(
      `Deno KV failed to ${action}: other processes changed the same entries ${ATTEMPTS} times. Try again`,
    );
  }

  /** Returns a stream of the changes of a key; undefined after `close`. */
  watch(key: KvKey): ReadableStream<unknown> | undefined {
    return this.#kv?.watch([key]);
  }

  /** Waits for pending calls, at the latest until 1 s after the last call started. Later calls fail. */
  async close(): Promise<void> {
    const leftMs = LINGER_MS - (this.clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#allSettled(), Math.max(0, leftMs), this.clock);
    const kv = this.#kv;
    this.#kv = undefined;
    if (this.#own) kv?.close();
  }

  async #allSettled(): Promise<void> {
    // A caller that has just received messages releases them within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  async #run<T>(action: string, act: (kv: Kv) => Promise<T>): Promise<T> {
    const call = this.#withTimeout(action, (expired) => this.#retryWhileBusy(act, expired));
    this.#pending.add(call);
    try {
      return await call;
    } catch (error) {
      if (isMailboxError(error)) throw error;
      const text = error instanceof Error ? error.message : errorText(error);
      throw new MailboxConnectionError(`Deno KV failed to ${action}: ${text}`, { cause: error });
    } finally {
      this.#pending.delete(call);
    }
  }

  /** Repeats `act` while another process locks the file. A refused call has changed nothing. */
  async #retryWhileBusy<T>(act: (kv: Kv) => Promise<T>, expired: () => boolean): Promise<T> {
    for (;;) {
      const kv = this.#kv;
      if (kv === undefined) {
        throw new MailboxClosedError(
          "Cannot call Deno KV: this mailbox has closed its store. Open the mailbox again",
        );
      }
      try {
        return await act(kv);
      } catch (error) {
        if (!/database is (locked|busy)/.test(errorText(error)) || expired()) throw error;
      }
      await this.clock.sleep(1 + Math.random() * MAX_BUSY_DELAY_MS);
    }
  }

  async #withTimeout<T>(action: string, act: (isExpired: () => boolean) => Promise<T>): Promise<T> {
    let cancel: Cancel | undefined;
    let isExpired = false;
    this.#lastCallAt = this.clock.monotonic();
    const expired = new Promise<never>((_, reject) => {
      cancel = this.clock.schedule(this.#timeoutMs, () => {
        isExpired = true;
        reject(
          new MailboxConnectionError(
            `Deno KV did not answer within ${this.#timeoutMs} ms when asked to ${action}. Check the store; ` +
              "the next call tries again",
          ),
        );
      });
    });
    try {
      return await Promise.race([act(() => isExpired), expired]);
    } finally {
      cancel?.();
    }
  }
}
