import type { Entry } from "../../mailbox/engine.ts";
import { isMailboxError } from "../../mailbox/errors.ts";

/** A send that waits for its statement. */
interface PendingSend {
  readonly entries: readonly Entry<string>[];
  readonly resolve: (stored: readonly boolean[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The limits of a batch; a larger send is a batch by itself. */
const MAX_ENTRIES = 1_000;
const MAX_CHARACTERS = 4_000_000;

/**
 * Batches the sends of one microtask turn, and those that arrive while a statement runs, into the next
 * statement. Only one statement runs at a time, so that message numbers follow the order of sending.
 *
 * When the server refuses a batch because of its messages, each send is tried alone, so that it fails or succeeds
 * as if there were no others.
 */
export class SendBatcher {
  readonly #store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>;
  #waiting: PendingSend[] = [];
  #sending = false;

  constructor(store: (entries: readonly Entry<string>[]) => Promise<readonly boolean[]>) {
    this.#store = store;
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
      if (!isOfMessages(error)) throw error;
      if (batch.length === 1) return batch[0]!.reject(error);
      for (const one of batch) await this.#sendBatch([one]);
    }
  }

  #nextBatch(): PendingSend[] {
    let size = 0;
    let characters = 0;
    const isOver = ({ entries }: PendingSend) => {
      size += entries.length;
      for (const { body, meta, checkpoint } of entries) {
        characters += body.length + (meta?.length ?? 0) + (checkpoint?.length ?? 0);
      }
      return size > MAX_ENTRIES || characters > MAX_CHARACTERS;
    };
    const end = this.#waiting.findIndex(isOver);
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : Math.max(1, end));
  }
}

/**
 * Returns true when other messages may succeed: the queue is too full for these, or the server refused a value. The
 * SQLSTATE classes are data exceptions, constraint violations and exceeded limits.
 */
function isOfMessages(error: unknown): boolean {
  if (isMailboxError(error, "MailboxFullError")) return true;
  const { code } = ((error as Error).cause ?? {}) as { readonly code?: unknown };
  return /^(22|23|54)...$/.test(String(code));
}
