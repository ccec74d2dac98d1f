import type { Log } from "../../log.ts";
import type { Delivery, Engine, Entry, Received } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import { type Capabilities, MAX_VISIBILITY_MS } from "../../mailbox/mailbox.ts";
import { isPurging, isRefusal, type Outcome, type SqsCalls, throwFailed } from "./sqs_client.ts";
import { Checkpoints, type CheckpointStore } from "./checkpoint_store.ts";
import {
  type GroupOf,
  recordOutcomes,
  sendMessages,
  type Settlement,
  type SqsDelivery,
} from "./_message.ts";
import { attributesOf, capabilitiesOf, type Queue } from "./_queue.ts";
import { Receiver } from "./_receiver.ts";

/** The time that a lease must have left for an acknowledgement. A shorter lease is extended first. */
const MIN_LEASE_MS = 1_000;
const EXTENSION_MS = 30_000;

const COUNTS = {
  waiting: "ApproximateNumberOfMessages",
  delayed: "ApproximateNumberOfMessagesDelayed",
  inFlight: "ApproximateNumberOfMessagesNotVisible",
} as const;

/** What an {@linkcode SqsEngine} works with. */
export interface SqsEngineParts {
  readonly calls: SqsCalls;
  readonly log: Log;
  readonly queue: Queue;
  /** Where dead letters are stored. The dead letters of this queue itself stay in it. */
  readonly deadLetters: Queue;
  readonly groupOf: GroupOf;
  readonly checkpoints?: CheckpointStore | undefined;
  /** Closes the client. */
  readonly destroy: () => void;
}

/**
 * A queue on SQS. The engine tracks leases by the local clock: SQS ignores a delete with an old receipt
 * handle without reporting it.
 */
export class SqsEngine implements Engine<string> {
  readonly capabilities: Capabilities;
  readonly label = "SQS";
  readonly #parts: SqsEngineParts;
  readonly #calls: SqsCalls;
  readonly #queue: Queue;
  readonly #receiver: Receiver;
  readonly #checkpoints: Checkpoints;
  #deadLetters: SqsEngine | undefined;
  #purgedAt = -Infinity;

  constructor(parts: SqsEngineParts) {
    const { calls, queue, deadLetters, log } = parts;
    this.capabilities = capabilitiesOf(queue, queue === deadLetters);
    this.#parts = parts;
    this.#calls = calls;
    this.#queue = queue;
    this.#checkpoints = new Checkpoints(queue.name, parts.checkpoints, log);
    const leases = {
      hide: this.#setVisibility.bind(this),
      lease: (deliveries: readonly SqsDelivery[], ms: number) => this.#extendLease(deliveries, ms),
      release: (deliveries: readonly SqsDelivery[]) => this.release(deliveries),
    };
    this.#receiver = new Receiver(calls, queue, leases, log);
  }

  /** Stores every message: SQS cannot find duplicate ids. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    await sendMessages(this.#calls, this.#queue, entries, this.#parts.groupOf);
    return entries.map(() => true);
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    const deliveries = await this.#receiver.receive(max, visibilityMs);
    try {
      await this.#checkpoints.load(deliveries);
    } catch (error) {
      await this.release(deliveries);
      throw error;
    }
    return { deliveries, nextDueMs: Infinity, now: this.#receiver.serverTime };
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const active = await this.#ensureLease(own);
    const open = own.filter((it) => active.has(it));
    const outcomes = await this.#run("acknowledge", "DeleteMessageBatch", open, () => ({}));
    recordOutcomes(open, outcomes, "acknowledge");
    await this.#checkpoints.delete(open.filter((it) => it.settledBy === "acknowledge"));
    throwFailed(outcomes);
    return own.map((it) => it.settledBy === "acknowledge");
  }

  async extend(
    deliveries: readonly Delivery<string>[],
    visibilityMs: number,
  ): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const endsAt = this.#now + visibilityMs;
    const open = own.filter((it) => this.#isActive(it));
    const active = new Set(
      open.filter((it) => Math.min(endsAt, maxLeaseEnd(it)) <= it.leaseEndsAt),
    );
    const shorter = open.filter((it) => !active.has(it));
    for (const it of await this.#extendLease(shorter, visibilityMs)) active.add(it);
    return own.map((it) => active.has(it));
  }

  async nack(deliveries: readonly Delivery<string>[], delayMs: number): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const open = own.filter((it) => this.#isActive(it));
    const changed = await this.#setVisibility(open, () => delayMs);
    // A refusal during the lease means that the message is visible already. Without a delay that is the
    // goal. The SDK and some runtimes silently repeat a request whose answer was lost.
    const outcomes = delayMs > 0 ? changed : changed.map((it) => isRefusal(it) ? undefined : it);
    recordOutcomes(open, outcomes, "release");
    throwFailed(outcomes);
    return own.map((it) => it.settledBy === "release");
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.nack(deliveries, 0);
  }

  /** Stores the dead letter first, so that a crash in between loses nothing. */
  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const own = delivery as SqsDelivery;
    if (!own.deadLetterStored) {
      if (!(await this.#ensureLease([own])).has(own)) return false;
      // A group of its own for each letter. A repeated call with this id stores none again in a FIFO queue.
      const messageId = () => own.messageId;
      await sendMessages(this.#calls, this.#parts.deadLetters, [letter], messageId, messageId);
      own.deadLetterStored = true;
    }
    const [done = false] = await this.acknowledge([delivery]);
    return done;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const own = delivery as SqsDelivery;
    this.#checkpoints.check(own);
    if (!this.#isActive(own)) return false;
    await this.#checkpoints.save(own, checkpoint);
    return true;
  }

  peek(): Promise<never> {
    return Promise.reject(
      new InvalidParameterError(
        `Cannot peek into "${this.#queue.name}": SQS cannot show a message without delivering it`,
      ),
    );
  }

  async count(): Promise<number> {
    const { waiting, delayed, inFlight } = await this.stats();
    return waiting + delayed + inFlight;
  }

  /** SQS counts a message that waits for its retry as in flight. It does not tell the oldest one. */
  async stats(): Promise<Record<keyof typeof COUNTS, number>> {
    const { name, url } = this.#queue;
    const counts = await attributesOf(this.#calls, `count ("${name}")`, url, Object.values(COUNTS));
    const countOf = (which: keyof typeof COUNTS) => Number(counts[COUNTS[which]] ?? 0);
    return {
      waiting: countOf("waiting"),
      delayed: countOf("delayed"),
      inFlight: countOf("inFlight"),
    };
  }

  async purge(): Promise<number> {
    const { name, url } = this.#queue;
    const count = await this.count();
    try {
      await this.#calls.run(`purge ("${name}")`, "PurgeQueue", { QueueUrl: url });
    } catch (error) {
      if (!isPurging(error)) throw error;
      throw new MailboxConnectionError(
        `Cannot purge mailbox "${name}": it was purged less than 60 s ago and SQS purges once a ` +
          "minute; try again later",
        { cause: error },
      );
    }
    this.#purgedAt = this.#now;
    return count;
  }

  onWake(listener: () => void): () => void {
    return this.#receiver.listen(listener);
  }

  deadLetters(): SqsEngine {
    return this.#deadLetters ??= new SqsEngine({ ...this.#parts, queue: this.#parts.deadLetters });
  }

  async close(): Promise<void> {
    this.#closeReceivers();
    await this.#calls.settled();
    this.#parts.destroy();
  }

  #closeReceivers(): void {
    this.#receiver.close();
    if (this.#deadLetters !== undefined) this.#deadLetters.#closeReceivers();
  }

  get #now(): number {
    return this.#calls.clock.monotonic();
  }

  #isActive({ leaseEndsAt, receivedAt }: SqsDelivery): boolean {
    return leaseEndsAt > this.#now && receivedAt > this.#purgedAt;
  }

  /** Returns the deliveries whose lease lasts long enough for an acknowledgement. */
  async #ensureLease(deliveries: readonly SqsDelivery[]): Promise<ReadonlySet<SqsDelivery>> {
    const active = new Set(deliveries.filter((it) => this.#isActive(it)));
    const late = [...active].filter((it) => it.leaseEndsAt < this.#now + MIN_LEASE_MS);
    const extended = late.length === 0
      ? active
      : await this.#extendLease(late, EXTENSION_MS, "acknowledge");
    for (const it of late) if (!extended.has(it)) active.delete(it);
    return active;
  }

  /** Extends active leases. Records deliveries that an earlier request has settled as `how`. */
  async #extendLease(
    deliveries: readonly SqsDelivery[],
    visibilityMs: number,
    how?: Settlement,
  ): Promise<ReadonlySet<SqsDelivery>> {
    const now = this.#now;
    const outcomes = await this.#setVisibility(deliveries, () => visibilityMs);
    // A delivery that was settled in the meantime has no lease.
    const active = deliveries.filter((it, i) => outcomes[i] === undefined && it.leaseEndsAt > now);
    for (const it of active) {
      it.leaseEndsAt = Math.min(now + Math.ceil(visibilityMs / 1_000) * 1_000, maxLeaseEnd(it));
    }
    const refused = deliveries.filter((it, i) => {
      return it.unanswered === how && isRefusal(outcomes[i]);
    });
    if (how !== undefined) recordOutcomes(refused, refused.map(() => undefined), how);
    throwFailed(outcomes);
    return new Set(active);
  }

  /** Hides messages from now on. SQS counts whole seconds. */
  #setVisibility(
    deliveries: readonly SqsDelivery[],
    forMs: (delivery: SqsDelivery) => number,
  ): Promise<Outcome[]> {
    return this.#run("change visibility", "ChangeMessageVisibilityBatch", deliveries, (it) => {
      const longest = Math.floor((maxLeaseEnd(it) - this.#now) / 1_000);
      return { VisibilityTimeout: Math.max(0, Math.min(Math.ceil(forMs(it) / 1_000), longest)) };
    });
  }

  #run(
    what: string,
    command: "DeleteMessageBatch" | "ChangeMessageVisibilityBatch",
    deliveries: readonly SqsDelivery[],
    more: (delivery: SqsDelivery) => object,
  ): Promise<Outcome[]> {
    const { name, url } = this.#queue;
    return this.#calls.runInBatches({
      what: `${what} ("${name}")`,
      command,
      queueUrl: url,
      entries: deliveries.map((it) => {
        return { input: { ReceiptHandle: it.receiptHandle, ...more(it) } };
      }),
    });
  }
}

/** Returns the latest end of a lease: SQS hides a message for at most twelve hours. */
function maxLeaseEnd({ receivedAt }: SqsDelivery): number {
  return receivedAt + MAX_VISIBILITY_MS - MIN_LEASE_MS;
}
