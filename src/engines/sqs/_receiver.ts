import { BATCH, type Outcome } from "./_batches.ts";
import type { Calls } from "./_calls.ts";
import { ATTRIBUTES, type ReceivedMessage, SqsDelivery } from "./_delivery.ts";
import type { Queue } from "./_queue.ts";

const SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "SentTimestamp"];

/** As long as SQS lets a request wait: each costs the same. */
const WAIT_S = 20;

/**
 * For how long a long poll hides what it takes, before whoever waits says for how long they want it. What
 * is handed to a request that nobody waits for any more is back after that.
 */
const POLL_VISIBILITY_MS = 10_000;

/** More requests at a time would wait for a connection. */
const PARALLEL = 16;

/** Puts messages off that were taken before they are due. */
export type PutOff = (
  deliveries: readonly SqsDelivery[],
  forMs: (delivery: SqsDelivery) => number,
) => Promise<Outcome[]>;

/** The way out of a queue. */
export class Receiver {
  /** How many were wanted last. */
  lastMax = 1;
  readonly #calls: Calls;
  readonly #queue: Queue;
  readonly #putOff: PutOff;
  /** How many requests at once were all answered in full; an empty answer costs as much as a full one. */
  #width = 1;

  constructor(calls: Calls, queue: Queue, putOff: PutOff) {
    this.#calls = calls;
    this.#queue = queue;
    this.#putOff = putOff;
  }

  /** Takes what is there. */
  async shortPolls(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const taken = new Map<string, SqsDelivery>();
    for (let full = true; full && taken.size < max;) {
      const wanted = max - taken.size;
      const width = Math.min(this.#width, Math.ceil(wanted / BATCH));
      const asked = Array.from({ length: width }, (_, i) => Math.min(BATCH, wanted - i * BATCH));
      const answers = await this.#all(asked.map((count) => this.#receive(count, visibilityMs, 0)));
      full = answers.every(({ received }, i) => received === asked[i]);
      this.#width = full ? Math.min(2 * width, PARALLEL) : 1;
      const before = taken.size;
      // SQS may hand over one message twice: the last receipt is the good one.
      for (const it of answers.flatMap(({ due }) => due)) taken.set(it.messageId, it);
      if (visibilityMs === 0 && taken.size === before) break;
    }
    return [...taken.values()];
  }

  /** Resolves when there is something, or after some time with nothing. */
  async longPoll(signal: AbortSignal): Promise<SqsDelivery[]> {
    const max = Math.min(BATCH, this.lastMax);
    return [...(await this.#receive(max, POLL_VISIBILITY_MS, WAIT_S, signal)).due];
  }

  /** When one of several requests fails, what the others have brought is not lost: it is received. */
  async #all(requests: readonly Promise<Answer>[]): Promise<Answer[]> {
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
    const takenAt = clock.monotonic();
    const input = {
      QueueUrl: this.#queue.url,
      MaxNumberOfMessages: max,
      VisibilityTimeout: visibilityS,
      WaitTimeSeconds: waitS,
      MessageAttributeNames: ATTRIBUTES,
      // The old name and the new one: versions of the SDK before 3.572 drop the new one.
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
    // During a long poll a message may have been taken at any moment: surely not before it came.
    const since = waitS === 0 ? takenAt : clock.monotonic();
    const all = Messages.map((it) => new SqsDelivery(it, since, visibilityS * 1_000));
    return { received: all.length, due: await this.#due(all) };
  }

  async #due(deliveries: readonly SqsDelivery[]): Promise<SqsDelivery[]> {
    const now = this.#calls.clock.now();
    const early = deliveries.filter(({ dueAt }) => dueAt > now);
    if (early.length === 0) return [...deliveries];
    await this.#putOff(early, ({ dueAt }) => dueAt - now);
    return deliveries.filter(({ dueAt }) => dueAt <= now);
  }
}

interface Answer {
  readonly received: number;
  readonly due: readonly SqsDelivery[];
}
