import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { CheckpointStore } from "./checkpoint_store.ts";
import type { SqsDelivery } from "./_delivery.ts";

/** The progress of messages, in a store beside the queue. */
export class Progress {
  readonly #name: string;
  readonly #store: CheckpointStore | undefined;
  readonly #log: Log;

  constructor(name: string, store: CheckpointStore | undefined, log: Log) {
    this.#name = name;
    this.#log = log;
    this.#store = store;
  }

  /** Refuses where there is no place for it. */
  check({ id }: SqsDelivery): void {
    if (this.#store !== undefined) return;
    throw new InvalidParameterError(
      `Cannot save the progress of message ${id} of "${this.#name}": SQS cannot change a message; ` +
        "open the mailbox with `checkpoints`, a store that all workers reach",
    );
  }

  async save(delivery: SqsDelivery, progress: string): Promise<void> {
    await this.#run("save", (store) => store.set(delivery.messageId, progress));
    delivery.checkpoint = progress;
  }

  /** Hangs on deliveries what earlier ones have saved. */
  async load(deliveries: readonly SqsDelivery[]): Promise<void> {
    if (this.#store === undefined) return;
    await Promise.all(
      deliveries.filter((it) => it.mayHaveProgress).map(async (it) => {
        const progress = await this.#run("load", (store) => store.get(it.messageId));
        if (typeof progress === "string") it.checkpoint = progress;
      }),
    );
  }

  /** Forgets what is done with. Nobody has to wait, or to fail, for that. */
  async drop(deliveries: readonly SqsDelivery[]): Promise<void> {
    if (this.#store === undefined) return;
    const done = deliveries.filter(({ checkpoint }) => checkpoint !== undefined);
    try {
      await Promise.all(done.map((it) => this.#run("drop", (store) => store.delete(it.messageId))));
    } catch (error) {
      this.#log.warn("the progress of a message that is done could not be removed", { error });
    }
  }

  async #run<A>(what: string, act: (store: CheckpointStore) => Promise<A>): Promise<A> {
    try {
      return await act(this.#store!);
    } catch (error) {
      throw new MailboxConnectionError(
        `The store of checkpoints failed to ${what} progress of "${this.#name}": ${
          errorText(error)
        }`,
        { cause: error },
      );
    }
  }
}
