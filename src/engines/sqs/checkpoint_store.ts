import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { SqsDelivery } from "./_message.ts";

/**
 * Stores the checkpoints of messages. SQS cannot change a stored message, so checkpoints need a table, a
 * key-value store or another place that all workers can reach. Let its entries expire after the queue's
 * retention period, because the checkpoints of purged and expired messages are not deleted.
 */
export interface CheckpointStore {
  /** Returns the stored checkpoint; undefined or `null` when there is none. */
  get(messageId: string): Promise<string | null | undefined>;
  /** Stores a checkpoint. */
  set(messageId: string, checkpoint: string): Promise<unknown>;
  /** Deletes the checkpoint of an acknowledged message. */
  delete(messageId: string): Promise<unknown>;
}

/** The checkpoints of one queue. */
export class Checkpoints {
  readonly #name: string;
  readonly #store: CheckpointStore | undefined;
  readonly #log: Log;

  constructor(name: string, store: CheckpointStore | undefined, log: Log) {
    this.#name = name;
    this.#log = log;
    this.#store = store;
  }

  /** Throws when the mailbox has no checkpoint store. */
  check({ id }: SqsDelivery): void {
    if (this.#store !== undefined) return;
    throw new InvalidParameterError(
      `Cannot save the checkpoint of message ${id} of "${this.#name}": SQS cannot change a message; ` +
        "open the mailbox with `checkpoints`, a store that all workers can reach",
    );
  }

  async save(delivery: SqsDelivery, checkpoint: string): Promise<void> {
    await this.#run("save", (store) => store.set(delivery.messageId, checkpoint));
    delivery.checkpoint = checkpoint;
  }

  /** Sets the stored checkpoints on deliveries. */
  async load(deliveries: readonly SqsDelivery[]): Promise<void> {
    if (this.#store === undefined) return;
    await Promise.all(
      deliveries.filter((it) => it.mayHaveCheckpoint).map(async (it) => {
        const checkpoint = await this.#run("load", (store) => store.get(it.messageId));
        if (typeof checkpoint === "string") it.checkpoint = checkpoint;
      }),
    );
  }

  /**
   * Deletes the checkpoints of acknowledged messages. Logs errors, because the messages are settled.
   */
  async delete(deliveries: readonly SqsDelivery[]): Promise<void> {
    if (this.#store === undefined) return;
    const done = deliveries.filter(({ checkpoint }) => checkpoint !== undefined);
    try {
      await Promise.all(
        done.map((it) => this.#run("delete", (store) => store.delete(it.messageId))),
      );
    } catch (error) {
      this.#log.warn("could not delete the checkpoint of an acknowledged message", {
        mailbox: this.#name,
        error,
      });
    }
  }

  async #run<A>(what: string, act: (store: CheckpointStore) => Promise<A>): Promise<A> {
    try {
      return await act(this.#store!);
    } catch (error) {
      throw new MailboxConnectionError(
        `The checkpoint store failed to ${what} a checkpoint of "${this.#name}": ${
          errorText(error)
        }`,
        { cause: error },
      );
    }
  }
}
