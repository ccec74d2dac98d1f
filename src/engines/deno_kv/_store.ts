import { BoundedCalls } from "../_kit/calls.ts";
import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import {
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
} from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";
import type { Kv, KvAtomic, KvEntry, KvKey, KvSelector } from "./kv.ts";

/** The maximum number of keys of one `getMany`. */
const MAX_KEYS = 10;

/** The limits of one commit, less a reserve: checks, bytes of keys, bytes of values. */
const MAX_CHECKS = 90;
const MAX_KEY_BYTES = 70_000;
export const MAX_COMMIT_BYTES = 700_000;

/** How often a change is tried that conflicts with other processes. */
const ATTEMPTS = 40;
const MAX_CONFLICT_DELAY_MS = 50;

/** About how long another process locks the file. */
const MAX_BUSY_DELAY_MS = 10;

/** The size of one part of a change, in bytes. */
export interface Weight {
  readonly keyBytes: number;
  readonly bytes: number;
}

/** Options of a {@linkcode Store}. */
export interface StoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** After how many milliseconds a call fails. */
  readonly callTimeoutMs: number;
  /** True when `close` closes the store. */
  readonly ownsKv: boolean;
}

/** Calls a store, each call with a timeout. */
export class Store {
  readonly clock: Clock;
  readonly random: Random;
  readonly #log: Log;
  readonly #calls: BoundedCalls;
  readonly #ownsKv: boolean;
  #kv: Kv | undefined;

  constructor(kv: Kv, options: StoreOptions) {
    this.#kv = kv;
    this.clock = options.clock;
    this.random = options.random;
    this.#log = options.log;
    this.#ownsKv = options.ownsKv;
    this.#calls = new BoundedCalls("Deno KV", options.clock, options.callTimeoutMs);
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
      await this.clock.sleep(this.random.number() * Math.min(2 ** i, MAX_CONFLICT_DELAY_MS));
    }
    throw new MailboxConnectionError(
      `Deno KV failed to ${action}: other processes changed the same entries ${ATTEMPTS} times. Try again`,
    );
  }

  /** Calls `listener` when a key changes, also by other processes. Returns the remover. */
  watch(key: KvKey, listener: () => void): () => void {
    const reader = this.#kv?.watch([key]).getReader();
    if (reader === undefined) return () => {};
    this.#follow(reader, listener);
    return () => void reader.cancel().catch(() => {}); // the stream may have failed before
  }

  /** Waits for pending calls, at the latest until 1 s after the last call started. Later calls fail. */
  async close(): Promise<void> {
    await this.#calls.settled();
    const kv = this.#kv;
    this.#kv = undefined;
    if (this.#ownsKv) kv?.close();
  }

  /** Skips the first value, which is the current state. */
  async #follow(
    reader: ReadableStreamDefaultReader<unknown>,
    listener: () => void,
  ): Promise<void> {
    try {
      for (let first = true; !(await reader.read()).done; first = false) {
        if (!first) listener();
      }
    } catch (error) {
      this.#log.debug("could not watch Deno KV; receivers poll instead", { error });
    }
  }

  async #run<T>(action: string, act: (kv: Kv) => Promise<T>): Promise<T> {
    try {
      return await this.#calls.run(action, (signal) => this.#retryWhileBusy(act, signal));
    } catch (error) {
      if (isMailboxError(error)) throw error;
      const text = error instanceof Error ? error.message : errorText(error);
      throw new MailboxConnectionError(`Deno KV failed to ${action}: ${text}`, { cause: error });
    }
  }

  /** Repeats `act` while another process locks the file. A refused call has changed nothing. */
  async #retryWhileBusy<T>(act: (kv: Kv) => Promise<T>, expired: AbortSignal): Promise<T> {
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
        if (!/database is (locked|busy)/.test(errorText(error)) || expired.aborted) throw error;
      }
      await this.clock.sleep(1 + this.random.number() * MAX_BUSY_DELAY_MS);
    }
  }
}

/** Splits a change into chunks that fit into one commit each. */
export function chunksOf<T>(parts: readonly T[], weigh: (part: T) => Weight): T[][] {
  const chunks: T[][] = [];
  let chunk: T[] = [];
  let [keyBytes, bytes] = [0, 0];
  for (const part of parts) {
    const weight = weigh(part);
    keyBytes += weight.keyBytes;
    bytes += weight.bytes;
    const fits = chunk.length < MAX_CHECKS && keyBytes <= MAX_KEY_BYTES &&
      bytes <= MAX_COMMIT_BYTES;
    if (chunks.length === 0 || !fits) {
      chunks.push(chunk = []);
      ({ keyBytes, bytes } = weight);
    }
    chunk.push(part);
  }
  return chunks;
}
