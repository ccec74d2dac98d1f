import type { Log } from "../../log.ts";
import type { Delivery, Engine, Entry, Pulled } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES, MAX_VISIBILITY_MS } from "../../mailbox/mailbox.ts";
import { type BatchEntry, type Outcome, runInBatches, throwFailed } from "./_batches.ts";
import type { Calls } from "./_calls.ts";
import type { CheckpointStore } from "./checkpoint_store.ts";
import { recordOutcomes, type Settlement, type SqsDelivery } from "./_delivery.ts";
import { isPurging } from "./_errors.ts";
import { LongPoll } from "./_long_poll.ts";
import { attributesOf, type Queue } from "./_queue.ts";
import { Checkpoints } from "./checkpoint_store.ts";
import { Receiver } from "./_receiver.ts";
import { type GroupOf, Sender } from "./_sender.ts";

/** The time that a lease must have left for an acknowledgement. A shorter lease is extended first. */
const MIN_LEASE_MS = 1_000;
const EXTENSION_MS = 30_000;

const COUNTS: readonly string[] = ["", "Delayed", "NotVisible"]
  .map((which) => `ApproximateNumberOfMessages${which}`);

export interface SqsEngineParts {
  readonly calls: Calls;
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
  readonly #calls: Calls;
  readonly #queue: Queue;
  readonly #sender: Sender;
  readonly #receiver: Receiver;
  readonly #checkpoints: Checkpoints;
  readonly #longPoll: LongPoll;
  #purgedAt = -Infinity;

  constructor(parts: SqsEngineParts) {
    const { calls, queue, groupOf, deadLetters } = parts;
    this.capabilities = {
      ...FULL_CAPABILITIES,
      restoresAttempts: false,
      // Each dead letter is a group of its own, so an unsettled one does not block the others.
      fifo: queue.fifo && queue !== deadLetters,
      delay: !queue.fifo,
      dedup: false,
      exactCount: false,
    };
    this.#parts = parts;
    this.#calls = calls;
    this.#queue = queue;
    this.#sender = new Sender(calls, queue, groupOf);
    this.#checkpoints = new Checkpoints(queue.name, parts.checkpoints, parts.log);
    this.#receiver = new Receiver(calls, queue, (early, ms) => this.#setVisibility(early, ms));
    this.#longPoll = new LongPoll({
      clock: calls.clock,
      log: parts.log,
      poll: (signal) => this.#receiver.longPoll(signal),
      release: (deliveries) => this.release(deliveries),
    });
  }

  /** Stores every message: SQS cannot find duplicate ids. */
  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    await this.#sender.send(entries);
    return entries.map(() => true);
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    this.#receiver.lastMax = max;
    let deliveries = await this.#takeBuffered(max, visibilityMs);
    if (deliveries.length === 0 && !this.#longPoll.isActive) {
      deliveries = await this.#receiver.shortPoll(max, visibilityMs);
      if (deliveries.length === 0) {
        await this.#longPoll.waitForLeftover(); // it may have received messages in the meantime
        deliveries = await this.#takeBuffered(max, visibilityMs);
      }
    }
    return { deliveries: await this.#withCheckpoints(deliveries), nextDueMs: Infinity };
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

  async retry(deliveries: readonly Delivery<string>[], delayMs: number): Promise<boolean[]> {
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
    return this.retry(deliveries, 0);
  }

  /** Stores the dead letter first, so that a crash in between loses nothing. */
  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    const own = delivery as SqsDelivery;
    if (!own.deadLetterStored) {
      if (!(await this.#ensureLease([own])).has(own)) return false;
      const { id, replyTo, messageId } = own;
      const sender = new Sender(this.#calls, this.#parts.deadLetters, () => messageId);
      await sender.send([{ id, replyTo, body: deadLetter, delayMs: 0, dedup: false }], messageId);
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
    const { name, url } = this.#queue;
    const counts = await attributesOf(this.#calls, `count ("${name}")`, url, COUNTS);
    return COUNTS.reduce((sum, which) => sum + Number(counts[which] ?? 0), 0);
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
    return this.#longPoll.listen(listener);
  }

  /** Shares the client; this engine closes it for both. */
  deadLetters(): SqsEngine {
    return new SqsEngine({ ...this.#parts, queue: this.#parts.deadLetters, destroy: () => {} });
  }

  async close(): Promise<void> {
    this.#longPoll.close();
    await this.#calls.settle();
    this.#parts.destroy();
  }

  get #now(): number {
    return this.#calls.clock.monotonic();
  }

  #isActive({ leaseEndsAt, receivedAt }: SqsDelivery): boolean {
    return leaseEndsAt > this.#now && receivedAt > this.#purgedAt;
  }

  /** Returns messages that the long poll has buffered, with the requested lease. */
  async #takeBuffered(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const buffered = this.#longPoll.take(max);
    if (buffered.length === 0) return buffered;
    const leased = await this.#extendLease(buffered, visibilityMs);
    return buffered.filter((it) => leased.has(it));
  }

  /** Loads checkpoints. Releases the deliveries if that fails. */
  async #withCheckpoints(deliveries: SqsDelivery[]): Promise<SqsDelivery[]> {
    try {
      await this.#checkpoints.load(deliveries);
    } catch (error) {
      await this.release(deliveries);
      throw error;
    }
    return deliveries;
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
    name: "DeleteMessageBatch" | "ChangeMessageVisibilityBatch",
    deliveries: readonly SqsDelivery[],
    more: (delivery: SqsDelivery) => object,
  ): Promise<Outcome[]> {
    const entries: BatchEntry[] = deliveries.map((it) => {
      return { input: { ReceiptHandle: it.receipt, ...more(it) } };
    });
    const { name: queue, url } = this.#queue;
    return runInBatches(this.#calls, `${what} ("${queue}")`, name, url, entries);
  }
}

/** Returns the latest end of a lease: SQS hides a message for at most twelve hours. */
function maxLeaseEnd({ receivedAt }: SqsDelivery): number {
  return receivedAt + MAX_VISIBILITY_MS - MIN_LEASE_MS;
}

function isRefusal(outcome: Outcome): boolean {
  return outcome !== undefined && !(outcome instanceof Error);
}
