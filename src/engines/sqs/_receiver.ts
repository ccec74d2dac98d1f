import type { Log } from "../../log.ts";
import { BATCH, type Outcome, PARALLEL, type SqsCalls } from "./sqs_client.ts";
import { LongPoll } from "./_long_poll.ts";
import { ATTRIBUTES, type ReceivedMessage, SqsDelivery } from "./_message.ts";
import type { Queue } from "./_queue.ts";

const SYSTEM_ATTRIBUTES = [
  "ApproximateReceiveCount",
  "ApproximateFirstReceiveTimestamp",
  "SentTimestamp",
  "SequenceNumber",
];

/** The longest wait that SQS supports. Every request costs the same. */
const WAIT_S = 20;

/**
 * How long a long poll hides its messages before a receiver chooses a visibility timeout. A message that
 * is delivered to an abandoned request reappears after this time.
 */
const POLL_VISIBILITY_MS = 10_000;

/** What a receiver does with deliveries. */
export interface LeaseCalls {
  /** Hides messages from now on, each for its own time in milliseconds. */
  hide(
    deliveries: readonly SqsDelivery[],
    forMs: (delivery: SqsDelivery) => number,
  ): Promise<Outcome[]>;
  /** Returns the deliveries whose lease could be set to `visibilityMs` from now. */
  lease(
    deliveries: readonly SqsDelivery[],
    visibilityMs: number,
  ): Promise<ReadonlySet<SqsDelivery>>;
  release(deliveries: readonly SqsDelivery[]): Promise<unknown>;
}

interface Answer {
  readonly received: number;
  readonly due: readonly SqsDelivery[];
}

/** Receives messages from a queue. */
export class Receiver {
  readonly #calls: SqsCalls;
  readonly #queue: Queue;
  readonly #leases: LeaseCalls;
  readonly #longPoll: LongPoll;
  /** The most messages per request. With ten, SQS would deliver several of a group at a time. */
  readonly #batch: number;
  /** The clock of SQS minus the local clock, as the last first delivery of a message showed it. */
  #clockOffsetMs = 0;
  /** The `max` of the last receive. */
  #lastMax = 1;
  /**
   * How many parallel requests to send. Grows while all answers are full, because an empty answer costs
   * as much as a full one.
   */
  #width = 1;

  constructor(calls: SqsCalls, queue: Queue, leases: LeaseCalls, log: Log) {
    this.#calls = calls;
    this.#queue = queue;
    this.#leases = leases;
    this.#batch = queue.keyed ? 1 : BATCH;
    this.#longPoll = new LongPoll({
      mailbox: queue.name,
      clock: calls.clock,
      log,
      poll: (signal) => this.#pollLong(signal),
      release: (deliveries) => leases.release(deliveries),
    });
  }

  /** The time by the clock of SQS, in milliseconds since the Unix epoch. */
  get serverTime(): number {
    return this.#calls.clock.now() + this.#clockOffsetMs;
  }

  /** Receives visible messages without waiting. */
  async receive(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    this.#lastMax = max;
    const buffered = await this.#takeBuffered(max, visibilityMs);
    if (buffered.length > 0 || this.#longPoll.isActive) return buffered;
    const received = await this.#pollShort(max, visibilityMs);
    if (received.length > 0) return received;
    await this.#longPoll.waitForLeftover(); // it may have received messages in the meantime
    return await this.#takeBuffered(max, visibilityMs);
  }

  /** Calls `listener` when the long poll has messages. Returns the remover. */
  listen(listener: () => void): () => void {
    return this.#longPoll.listen(listener);
  }

  close(): void {
    this.#longPoll.close();
  }

  async #takeBuffered(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const buffered = this.#longPoll.take(max);
    if (buffered.length === 0) return buffered;
    const leased = await this.#leases.lease(buffered, visibilityMs);
    return buffered.filter((it) => leased.has(it));
  }

  async #pollShort(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const received = new Map<string, SqsDelivery>();
    for (let full = true; full && received.size < max;) {
      const wanted = max - received.size;
      const width = Math.min(this.#width, Math.ceil(wanted / this.#batch));
      const requested = Array.from(
        { length: width },
        (_, i) => Math.min(this.#batch, wanted - i * this.#batch),
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
    const all = [...received.values()];
    return this.#queue.keyed ? all.sort(bySequence) : all; // parallel requests have no order
  }

  /** Resolves with messages, or with none when the wait time passes. */
  async #pollLong(signal: AbortSignal): Promise<SqsDelivery[]> {
    const max = Math.min(this.#batch, this.#lastMax);
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
    for (const { Attributes = {} } of Messages) this.#readClock(Attributes);
    const all = Messages.map((it) => new SqsDelivery(it, since, visibilityS * 1_000));
    return { received: all.length, due: await this.#filterDue(all) };
  }

  /** The first delivery of a message has the time of its receive. */
  #readClock(attributes: Readonly<Record<string, string>>): void {
    const receivedAt = Number(attributes["ApproximateFirstReceiveTimestamp"]);
    if (attributes["ApproximateReceiveCount"] !== "1" || !(receivedAt > 0)) return;
    this.#clockOffsetMs = receivedAt - this.#calls.clock.now();
  }

  async #filterDue(deliveries: readonly SqsDelivery[]): Promise<SqsDelivery[]> {
    const now = this.#calls.clock.now();
    const early = deliveries.filter(({ dueAt }) => dueAt > now);
    if (early.length === 0) return [...deliveries];
    await this.#leases.hide(early, ({ dueAt }) => dueAt - now);
    return deliveries.filter(({ dueAt }) => dueAt <= now);
  }
}

/** Compares long numbers without a loss of digits. */
function bySequence({ sequence: a }: SqsDelivery, { sequence: b }: SqsDelivery): number {
  return a.length - b.length || (a < b ? -1 : 1);
}
