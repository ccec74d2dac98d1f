import { BATCH, type Outcome } from "./_batches.ts";
import type { Calls } from "./_calls.ts";
import { ATTRIBUTES, type ReceivedMessage, SqsDelivery } from "./_delivery.ts";
import type { Queue } from "./_queue.ts";

const SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "SentTimestamp"];

/** The longest wait that SQS supports. Every request costs the same. */
const WAIT_S = 20;

/**
 * How long a long poll hides its messages before a receiver chooses a visibility timeout. A message that
 * is delivered to an abandoned request reappears after this time.
 */
const POLL_VISIBILITY_MS = 10_000;

/** More parallel requests would wait for a connection. */
const PARALLEL = 16;

/** Hides messages until they are due. */
export type Defer = (
  deliveries: readonly SqsDelivery[],
  forMs: (delivery: SqsDelivery) => number,
) => Promise<Outcome[]>;

/** Receives messages from a queue. */
export class Receiver {
  /** The `max` of the last receive. */
  lastMax = 1;
  readonly #calls: Calls;
  readonly #queue: Queue;
  readonly #defer: Defer;
  /**
   * How many parallel requests to send. Grows while all answers are full, because an empty answer costs
   * as much as a full one.
   */
  #width = 1;

  constructor(calls: Calls, queue: Queue, defer: Defer) {
    this.#calls = calls;
    this.#queue = queue;
    this.#defer = defer;
  }

  /** Receives visible messages without waiting. */
  async shortPoll(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const received = new Map<string, SqsDelivery>();
    for (let full = true; full && received.size < max;) {
      const wanted = max - received.size;
      const width = Math.min(this.#width, Math.ceil(wanted / BATCH));
      const requested = Array.from(
        { length: width },
        (_, i) => Math.min(BATCH, wanted - i * BATCH),
      );
      const answers = await this.#settleAll(
        requested.map((count) => this.#receive(count, visibilityMs, 0)),
      );
      full = answers.every((it, i) => it.received === requested[i]);
      this.#width = full ? Math.min(2 * width, PARALLEL) : 1;
      const before = received.size;
      // SQS may deliver a message twice; the last receipt handle is valid.
      for (const it of answers.flatMap(({ due }) => due)) received.set(it.messageId, it);
      if (visibilityMs === 0 && received.size === before) break;
    }
    return [...received.values()];
  }

  /** Resolves with messages, or with none when the wait time passes. */
  async longPoll(signal: AbortSignal): Promise<SqsDelivery[]> {
    const max = Math.min(BATCH, this.lastMax);
    return [...(await this.#receive(max, POLL_VISIBILITY_MS, WAIT_S, signal)).due];
  }

  /** Ignores failed requests if the others have received messages, which must not be lost. */
  async #settleAll(requests: readonly Promise<Answer>[]): Promise<Answer[]> {
    const results = await Promise.allSettled(requests);
    const answers = results.flatMap((it) => it.status === "fulfilled" ? [it.value] : []);
    if (answers.some(({ due }) => due.length > 0)) return answers;
    return await Promise.all(requests);
  }

  async #receive(
    max: number,
    visibilityMs: number,
    waitS: number,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const { clock } = this.#calls;
    const visibilityS = Math.ceil(visibilityMs / 1_000);
    const receivedAt = clock.monotonic();
    const input = {
      QueueUrl: this.#queue.url,
      MaxNumberOfMessages: max,
      VisibilityTimeout: visibilityS,
      WaitTimeSeconds: waitS,
      MessageAttributeNames: ATTRIBUTES,
      // Versions of the SDK before 3.572 drop the new name.
      AttributeNames: SYSTEM_ATTRIBUTES,
      MessageSystemAttributeNames: SYSTEM_ATTRIBUTES,
    };
    const options = { waitMs: waitS * 1_000, ...(signal === undefined ? {} : { signal }) };
    const what = `receive ("${this.#queue.name}")`;
    const { Messages = [] } = await this.#calls.run<{ Messages?: ReceivedMessage[] }>(
      what,
      "ReceiveMessage",
      input,
      options,
    );
    // A long poll may receive a message at any moment, so its lease is counted from the answer.
    const since = waitS === 0 ? receivedAt : clock.monotonic();
    const all = Messages.map((it) => new SqsDelivery(it, since, visibilityS * 1_000));
    return { received: all.length, due: await this.#filterDue(all) };
  }

  async #filterDue(deliveries: readonly SqsDelivery[]): Promise<SqsDelivery[]> {
    const now = this.#calls.clock.now();
    const early = deliveries.filter(({ dueAt }) => dueAt > now);
    if (early.length === 0) return [...deliveries];
    await this.#defer(early, ({ dueAt }) => dueAt - now);
    return deliveries.filter(({ dueAt }) => dueAt <= now);
  }
}

interface Answer {
  readonly received: number;
  readonly due: readonly SqsDelivery[];
}
