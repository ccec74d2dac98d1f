import type { Log } from "../../log.ts";
import type { Delivery, Engine, Entry, Pulled } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES, MAX_VISIBILITY_MS } from "../../mailbox/mailbox.ts";
import { type BatchEntry, type Outcome, runInBatches, throwFailed } from "./_batches.ts";
import type { Calls } from "./_calls.ts";
import type { CheckpointStore } from "./checkpoint_store.ts";
import { conclude, type Settlement, type SqsDelivery } from "./_delivery.ts";
import { isPurging } from "./_errors.ts";
import { LongPoll } from "./_long_poll.ts";
import { attributesOf, type Queue } from "./_queue.ts";
import { Progress } from "./_progress.ts";
import { Receiver } from "./_receiver.ts";
import { type GroupOf, Sender } from "./_sender.ts";

/** What a lease must have left for a call to be made in its time; it is extended before, if not. */
const SAFE_MS = 1_000;
const SAFETY_MS = 30_000;

const COUNTS: readonly string[] = ["", "Delayed", "NotVisible"]
  .map((which) => `ApproximateNumberOfMessages${which}`);

/** What a {@linkcode SqsEngine} works with. */
export interface SqsEngineParts {
  readonly calls: Calls;
  readonly log: Log;
  readonly queue: Queue;
  /** Where letters go; those of the dead letters themselves stay there. */
  readonly deadLetters: Queue;
  readonly groupOf: GroupOf;
  readonly checkpoints?: CheckpointStore | undefined;
  /** Lets go of the client. */
  readonly destroy: () => void;
}

/**
 * One queue of SQS. Leases are watched here, by the local clock: SQS removes nothing by the receipt of
 * an earlier delivery, but does not say so either.
 */
export class SqsEngine implements Engine<string> {
  readonly capabilities: Capabilities;
  readonly label = "SQS";
  readonly #parts: SqsEngineParts;
  readonly #calls: Calls;
  readonly #queue: Queue;
  readonly #sender: Sender;
  readonly #receiver: Receiver;
  readonly #progress: Progress;
  readonly #poll: LongPoll;
  #purgedAt = -Infinity;

  constructor(parts: SqsEngineParts) {
    const { calls, queue, groupOf, deadLetters } = parts;
    this.capabilities = {
      ...FULL_CAPABILITIES,
      restoresAttempts: false,
      // Letters are a group each: one that is held does not hold up the others.
      fifo: queue.fifo && queue !== deadLetters,
      delay: !queue.fifo,
      dedup: false,
      exactCount: false,
    };
    this.#parts = parts;
    this.#calls = calls;
    this.#queue = queue;
    this.#sender = new Sender(calls, queue, groupOf);
    this.#progress = new Progress(queue.name, parts.checkpoints, parts.log);
    this.#receiver = new Receiver(calls, queue, (early, forMs) => this.#hide(early, forMs));
    this.#poll = new LongPoll({
      clock: calls.clock,
      log: parts.log,
      ask: (signal) => this.#receiver.longPoll(signal),
      giveBack: (deliveries) => this.release(deliveries),
    });
  }

  /** SQS looks up no ids, so that everything is stored. */
  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    await this.#sender.send(entries);
    return entries.map(() => true);
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    this.#receiver.lastMax = max;
    let deliveries = await this.#takeHeld(max, visibilityMs);
    if (deliveries.length === 0 && !this.#poll.watches) {
      deliveries = await this.#receiver.shortPolls(max, visibilityMs);
      if (deliveries.length === 0) {
        await this.#poll.leftover(); // it may have taken what was not found
        deliveries = await this.#takeHeld(max, visibilityMs);
      }
    }
    return { deliveries: await this.#withProgress(deliveries), nextDueMs: Infinity };
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const good = await this.#secure(own);
    const open = own.filter((it) => good.has(it));
    const outcomes = await this.#run("acknowledge", "DeleteMessageBatch", open, () => ({}));
    conclude(open, outcomes, "acknowledge");
    await this.#progress.drop(open.filter((it) => it.settledBy === "acknowledge"));
    throwFailed(outcomes);
    return own.map((it) => it.settledBy === "acknowledge");
  }

  async extend(
    deliveries: readonly Delivery<string>[],
    visibilityMs: number,
  ): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const endsAt = this.#now + visibilityMs;
    const open = own.filter((it) => this.#isGood(it));
    const good = new Set(open.filter((it) => Math.min(endsAt, lastEnd(it)) <= it.leaseEndsAt));
    const shorter = open.filter((it) => !good.has(it));
    for (const it of await this.#lease(shorter, visibilityMs)) good.add(it);
    return own.map((it) => good.has(it));
  }

  async retry(deliveries: readonly Delivery<string>[], delayMs: number): Promise<boolean[]> {
    const own = deliveries as readonly SqsDelivery[];
    const open = own.filter((it) => this.#isGood(it));
    const hidden = await this.#hide(open, () => delayMs);
    // Refused while the lease lasts: SQS holds it no more, which is all that is wanted without a delay.
    // The SDK and some runtimes repeat a request whose answer was lost, and do not tell.
    const outcomes = delayMs > 0 ? hidden : hidden.map((it) => isRefusal(it) ? undefined : it);
    conclude(open, outcomes, "give back");
    throwFailed(outcomes);
    return own.map((it) => it.settledBy === "give back");
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.retry(deliveries, 0);
  }

  /** Stored with the dead letters first, then removed: in between it is in both places, never in none. */
  async bury(delivery: Delivery<string>, letter: string): Promise<boolean> {
    const own = delivery as SqsDelivery;
    if (!own.letterStored) {
      if (!(await this.#secure([own])).has(own)) return false;
      const { id, replyTo, messageId } = own;
      const sender = new Sender(this.#calls, this.#parts.deadLetters, () => messageId);
      await sender.send([{ id, replyTo, body: letter, delayMs: 0, dedup: false }], messageId);
      own.letterStored = true;
    }
    const [done = false] = await this.acknowledge([delivery]);
    return done;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const own = delivery as SqsDelivery;
    this.#progress.check(own);
    if (!this.#isGood(own)) return false;
    await this.#progress.save(own, progress);
    return true;
  }

  peek(): Promise<never> {
    return Promise.reject(
      new InvalidParameterError(
        `Cannot look into "${this.#queue.name}": SQS shows messages only to whoever takes them`,
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
        `Mailbox "${name}" was purged less than 60 s ago, and SQS purges once a minute: try again later`,
        { cause: error },
      );
    }
    this.#purgedAt = this.#now;
    return count;
  }

  onWake(listener: () => void): () => void {
    return this.#poll.listen(listener);
  }

  /** By the same client, which this engine lets go of for both. */
  deadLetters(): SqsEngine {
    return new SqsEngine({ ...this.#parts, queue: this.#parts.deadLetters, destroy: () => {} });
  }

  async close(): Promise<void> {
    this.#poll.close();
    await this.#calls.settle();
    this.#parts.destroy();
  }

  get #now(): number {
    return this.#calls.clock.monotonic();
  }

  #isGood({ leaseEndsAt, takenAt }: SqsDelivery): boolean {
    return leaseEndsAt > this.#now && takenAt > this.#purgedAt;
  }

  /** What the long poll has brought, with the lease that is wanted. */
  async #takeHeld(max: number, visibilityMs: number): Promise<SqsDelivery[]> {
    const held = this.#poll.take(max);
    if (held.length === 0) return held;
    const leased = await this.#lease(held, visibilityMs);
    return held.filter((it) => leased.has(it));
  }

  /** What cannot be handed over with its progress is given back. */
  async #withProgress(deliveries: SqsDelivery[]): Promise<SqsDelivery[]> {
    try {
      await this.#progress.load(deliveries);
    } catch (error) {
      await this.release(deliveries);
      throw error;
    }
    return deliveries;
  }

  /** Those that are good for long enough to be acknowledged. */
  async #secure(deliveries: readonly SqsDelivery[]): Promise<ReadonlySet<SqsDelivery>> {
    const good = new Set(deliveries.filter((it) => this.#isGood(it)));
    const late = [...good].filter((it) => it.leaseEndsAt < this.#now + SAFE_MS);
    const extended = late.length === 0 ? good : await this.#lease(late, SAFETY_MS, "acknowledge");
    for (const it of late) if (!extended.has(it)) good.delete(it);
    return good;
  }

  /** Gives new leases, from now on, to those that have one, and finds out who was settled `how` before. */
  async #lease(
    deliveries: readonly SqsDelivery[],
    visibilityMs: number,
    how?: Settlement,
  ): Promise<ReadonlySet<SqsDelivery>> {
    const now = this.#now;
    const outcomes = await this.#hide(deliveries, () => visibilityMs);
    // One that was settled meanwhile has no lease any more.
    const good = deliveries.filter((it, i) => outcomes[i] === undefined && it.leaseEndsAt > now);
    for (const it of good) {
      it.leaseEndsAt = Math.min(now + Math.ceil(visibilityMs / 1_000) * 1_000, lastEnd(it));
    }
    const refused = deliveries.filter((it, i) => {
      return it.unanswered === how && isRefusal(outcomes[i]);
    });
    if (how !== undefined) conclude(refused, refused.map(() => undefined), how);
    throwFailed(outcomes);
    return new Set(good);
  }

  /** Hides messages from now on. SQS counts in seconds, and from the moment a message was taken. */
  #hide(
    deliveries: readonly SqsDelivery[],
    forMs: (delivery: SqsDelivery) => number,
  ): Promise<Outcome[]> {
    return this.#run("hide", "ChangeMessageVisibilityBatch", deliveries, (it) => {
      const longest = Math.floor((lastEnd(it) - this.#now) / 1_000);
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

/** SQS hides a message for twelve hours at the most, all in all, from a moment that is not known well. */
function lastEnd({ takenAt }: SqsDelivery): number {
  return takenAt + MAX_VISIBILITY_MS - SAFE_MS;
}

function isRefusal(outcome: Outcome): boolean {
  return outcome !== undefined && !(outcome instanceof Error);
}
