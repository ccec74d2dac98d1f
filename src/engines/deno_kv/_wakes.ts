import type { Log } from "../../log.ts";
import type { KvKey } from "./kv.ts";
import type { Store } from "./_store.ts";
import { pollNowAndThen } from "../_fallback_poll.ts";

/**
 * Calls listeners when messages may have become visible: at once for sends of this mailbox, by a watched
 * key for sends of others, and by polling for other processes on the same file, which a watch does not see.
 */
export class Wakes {
  readonly #store: Store;
  readonly #key: KvKey;
  readonly #pollIntervalMs: number;
  readonly #log: Log;
  readonly #listeners = new Set<() => void>();
  #stop: (() => void) | undefined;

  constructor(store: Store, key: KvKey, pollIntervalMs: number, log: Log) {
    this.#store = store;
    this.#key = key;
    this.#pollIntervalMs = pollIntervalMs;
    this.#log = log;
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#stop ??= this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.stop();
    };
  }

  wake(): void {
    for (const listener of this.#listeners) listener();
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  #start(): () => void {
    const stopPolling = pollNowAndThen(this.#store.clock, this.#pollIntervalMs, () => this.wake());
    const reader = this.#store.watch(this.#key)?.getReader();
    if (reader !== undefined) this.#follow(reader);
    return () => {
      stopPolling();
      reader?.cancel().catch(() => {}); // the stream may have failed before
    };
  }

  /** Skips the first value, which is the current state. */
  async #follow(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
    try {
      for (let first = true; !(await reader.read()).done; first = false) {
        if (!first) this.wake();
      }
    } catch (error) {
      this.#log.debug("could not watch Deno KV; receivers poll instead", { error });
    }
  }
}
