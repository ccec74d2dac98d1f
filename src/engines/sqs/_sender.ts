import type { Entry } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import { type BatchEntry, runInBatches } from "./_batches.ts";
import type { Calls } from "./_calls.ts";
import { outgoing } from "./_delivery.ts";
import type { Queue } from "./_queue.ts";

/** The longest delay that SQS supports. */
const MAX_DELAY_S = 900;

/** Returns the message group of a message in a FIFO queue. */
export type GroupOf = (body: string, id: string) => string;

/** Sends messages to a queue. */
export class Sender {
  readonly #calls: Calls;
  readonly #queue: Queue;
  readonly #groupOf: GroupOf;

  constructor(calls: Calls, queue: Queue, groupOf: GroupOf) {
    this.#calls = calls;
    this.#queue = queue;
    this.#groupOf = groupOf;
  }

  /** Sends all entries. When some fail, the others stay stored, and the error reports how many. */
  async send(entries: readonly Entry<string>[], dedupId?: string): Promise<void> {
    const { name, url, fifo, maxMessageBytes } = this.#queue;
    const outcomes = await runInBatches(
      this.#calls,
      `send ("${name}")`,
      "SendMessageBatch",
      url,
      entries.map((entry) => this.#batchEntry(entry, dedupId)),
      { maxBytes: maxMessageBytes, inOrder: fifo },
    );
    const failure = outcomes.find((it) => it !== undefined);
    if (failure === undefined) return;
    const stored = outcomes.filter((it) => it === undefined).length;
    const partly = stored === 0
      ? ""
      : `; ${stored} of ${entries.length} messages were stored and stay`;
    if (failure instanceof Error) {
      throw new MailboxConnectionError(`${failure.message}${partly}`, { cause: failure.cause });
    }
    throw new InvalidParameterError(
      `SQS refused a message for "${name}": ${failure.text}${partly}`,
    );
  }

  #batchEntry(entry: Entry<string>, dedupId: string | undefined): BatchEntry {
    const { name, fifo, maxMessageBytes } = this.#queue;
    const { delayMs } = entry;
    if (fifo && delayMs > 0) {
      throw new InvalidParameterError(
        `Invalid delayMs: "${name}" is a FIFO queue, where SQS cannot delay single messages; omit it, got ${delayMs}`,
      );
    }
    const delayS = Math.ceil(delayMs / 1_000);
    const dueAt = delayS > MAX_DELAY_S ? this.#calls.clock.now() + delayMs : undefined;
    const { input, bytes } = outgoing(entry, dueAt);
    if (bytes > maxMessageBytes) {
      throw new InvalidParameterError(
        `Message ${entry.id} has ${bytes} bytes with its attributes, and "${name}" takes ` +
          `${maxMessageBytes}; store its body elsewhere and send a reference`,
      );
    }
    return { bytes, input: { ...input, ...this.#queueOptions(entry, delayS, dedupId) } };
  }

  #queueOptions({ body, id }: Entry<string>, delayS: number, dedupId: string | undefined): object {
    if (!this.#queue.fifo) {
      return delayS === 0 ? {} : { DelaySeconds: Math.min(delayS, MAX_DELAY_S) };
    }
    // SQS drops duplicates for five minutes, even when the first message is acknowledged. A random id
    // lets a program reuse its message ids.
    return {
      MessageGroupId: this.#groupOf(body, id),
      MessageDeduplicationId: dedupId ?? crypto.randomUUID(),
    };
  }
}
