import type { Entry } from "../../mailbox/engine.ts";

/** A send that waits for its statement. */
interface PendingSend {
  readonly entries: readonly Entry<string>[];
  readonly resolve: (stored: readonly boolean[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The maximum number of messages of a batch; a larger send is a batch by itself. */
const MAX_ENTRIES = 1_000;

/**
 * Batches the sends of one microtask turn, and those that arrive while a statement runs, into the next
 * statement. Only one statement runs at a time, so that message numbers follow the order of sending.
 */
export class SendBatcher {
  readonly #store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>;
  readonly #isFull: (error: unknown) => boolean;
  #waiting: PendingSend[] = [];
  #sending = false;

  /** `isFull` recognizes the error of a full queue, after which each send of the batch is tried alone. */
  constructor(
    store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>,
    isFull: (error: unknown) => boolean,
  ) {
    this.#store = store;
    this.#isFull = isFull;
  }

  /** Resolves after the commit with one value per entry: whether it was stored. */
  send(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ entries, resolve, reject });
      if (this.#sending) return;
      this.#sending = true;
      queueMicrotask(() => void this.#sendAll());
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      try {
        await this.#sendBatch(batch);
      } catch (error) {
        // Fails the later sends too: they would wait for the same timeout in vain.
        for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(error);
      }
    }
    this.#sending = false;
  }

  async #sendBatch(batch: readonly PendingSend[]): Promise<void> {
    try {
      const stored = await this.#store(batch.flatMap(({ entries }) => entries));
      let next = 0;
      for (const { entries, resolve } of batch) resolve(stored.slice(next, next += entries.length));
    } catch (error) {
      if (!this.#isFull(error)) throw error;
      if (batch.length === 1) return batch[0]!.reject(error);
      // The whole batch does not fit, but some of its sends may.
      for (const one of batch) await this.#sendBatch([one]);
    }
  }

  #nextBatch(): PendingSend[] {
    let size = 0;
    const isOver = ({ entries }: PendingSend) => (size += entries.length) > MAX_ENTRIES;
    const end = this.#waiting.findIndex(isOver);
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : Math.max(1, end));
  }
}
