import type { Entry } from "../../mailbox/engine.ts";

/** One push that waits for its statement. */
export interface Push {
  readonly entries: readonly Entry<string>[];
  readonly resolve: (stored: readonly boolean[]) => void;
  readonly reject: (error: unknown) => void;
}

/** More messages than this do not share a statement. */
const MAX_ENTRIES = 1_000;

/**
 * What is sent in the same breath, or while a statement is under way, shares the next one. There is one
 * at a time, so that messages are numbered in the order in which they were sent.
 */
export class Outbox {
  readonly #store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>;
  readonly #isFull: (error: unknown) => boolean;
  #pushes: Push[] = [];
  #sending = false;

  /** `isFull` tells an error that others of the same statement need not share. */
  constructor(
    store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>,
    isFull: (error: unknown) => boolean,
  ) {
    this.#store = store;
    this.#isFull = isFull;
  }

  /** Resolves after the commit, and tells for each entry whether it was stored. */
  push(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    return new Promise((resolve, reject) => {
      this.#pushes.push({ entries, resolve, reject });
      if (this.#sending) return;
      this.#sending = true;
      queueMicrotask(() => void this.#sendAll());
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#pushes.length > 0) {
      const batch = this.#nextBatch();
      try {
        await this.#send(batch);
      } catch (error) {
        // Those that have come meanwhile would wait as long, and in vain: nobody waits twice.
        for (const { reject } of [...batch, ...this.#pushes.splice(0)]) reject(error);
      }
    }
    this.#sending = false;
  }

  async #send(batch: readonly Push[]): Promise<void> {
    try {
      const stored = await this.#store(batch.flatMap(({ entries }) => entries));
      let next = 0;
      for (const { entries, resolve } of batch) resolve(stored.slice(next, next += entries.length));
    } catch (error) {
      if (!this.#isFull(error)) throw error;
      if (batch.length === 1) return batch[0]!.reject(error);
      // There is no room for all of them, but there may be for some.
      for (const push of batch) await this.#send([push]);
    }
  }

  #nextBatch(): Push[] {
    let size = 0;
    const isOver = ({ entries }: Push) => (size += entries.length) > MAX_ENTRIES;
    const end = this.#pushes.findIndex(isOver);
    return this.#pushes.splice(0, end === -1 ? this.#pushes.length : Math.max(1, end));
  }
}
