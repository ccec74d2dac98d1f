import { abortable } from "../_promises.ts";
import { errorText, isRetryLaterError } from "../errors.ts";
import { type Lease, LeaseExtender, type Leases } from "../lease/lease_extender.ts";
import {
  type Mailbox,
  MAX_VISIBILITY_MS,
  type Message,
  type ReceiveOptions,
} from "../mailbox/mailbox.ts";
import { type BusMessage, messageFault } from "./bus_message.ts";
import { archive, forward, handlerFor, type Member } from "./member.ts";
import type { DrainCounts } from "./shutdown_steps.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Received = Message<BusMessage>;

/** A message of a batch, leased until it is settled. */
interface Item {
  readonly message: Received;
  readonly lease: Lease;
}

/** Options of an inbox drain. */
export interface DrainOptions {
  readonly maxBatch: number;
  /** How long one receive waits for invisible messages. */
  readonly intervalMs: number;
  /** The visibility timeout of received messages. Their leases are extended while the drain runs. */
  readonly visibilityTimeoutMs: number;
}

/**
 * Empties the inbox of a stopping member. It handles messages one after another, in the order of arrival,
 * and acknowledges each while the next one is handled. When the time is up, it releases all messages
 * that are not finished, or sends them to the successor.
 */
export class InboxDrain {
  readonly counts: Writable<DrainCounts> = {
    processed: 0,
    failed: 0,
    archived: 0,
    handedOver: 0,
    released: 0,
    left: undefined,
  };
  readonly #member: Member;
  readonly #inbox: Mailbox<BusMessage>;
  readonly #options: DrainOptions;
  readonly #leases: Leases;
  /** Handled, but not acknowledged yet. */
  readonly #done: Received[] = [];
  #acknowledging: Promise<void> | undefined;

  constructor(member: Member, options: DrainOptions) {
    const { clock, log } = member.bus.board;
    this.#member = member;
    this.#inbox = member.inbox;
    this.#options = options;
    this.#leases = new LeaseExtender({ clock, log }).leases({
      mailbox: member.inbox as Mailbox<unknown>,
      visibilityTimeoutMs: options.visibilityTimeoutMs,
    });
  }

  /** True when the last count was 0. */
  get isEmpty(): boolean {
    return this.counts.left === 0;
  }

  /** Handles messages until the inbox is empty or `signal` aborts. */
  async work(signal: AbortSignal): Promise<void> {
    this.counts.left = undefined;
    let waitTimeMs = 0;
    while (!signal.aborted) {
      const receiving = this.#receive({ waitTimeMs, signal });
      // Acknowledge at the same time: some engines do both in one call.
      const [received, acknowledged] = await Promise.allSettled([receiving, this.#acknowledging]);
      if (received.status === "rejected") throw received.reason;
      const batch = received.value;
      if (acknowledged.status === "rejected") {
        await this.#release(batch);
        throw acknowledged.reason;
      }
      if (batch.length > 0) await this.#workOn(batch, signal);
      else if (await this.count() === 0) return;
      // The messages that are left are invisible: leased by another receiver, or delayed.
      waitTimeMs = batch.length > 0 ? 0 : this.#options.intervalMs;
    }
    await this.#acknowledging;
  }

  /** Sends the remaining messages to the successor. Acknowledges each after it is stored there. */
  async handOver(successor: string, signal: AbortSignal): Promise<void> {
    const target = await this.#member.bus.inboxOf(successor);
    while (!signal.aborted) {
      const items = await this.#receive();
      if (items.length === 0) return;
      const batch = items.map(({ message }) => message);
      try {
        await Promise.all(batch.map((message) => forward(message, target)));
      } catch (error) {
        await this.#release(items);
        throw error;
      }
      for (const { lease } of items) await lease.stop();
      this.counts.handedOver += await this.#acknowledge(batch);
    }
  }

  /** Returns the number of messages in the inbox, in any state. */
  async count(): Promise<number> {
    return this.counts.left = await this.#inbox.approximateCount();
  }

  async #receive(options: ReceiveOptions = {}): Promise<readonly Item[]> {
    const { maxBatch: maxMessages, visibilityTimeoutMs } = this.#options;
    const messages = await this.#inbox.receive({ ...options, maxMessages, visibilityTimeoutMs });
    return messages.map((message) => {
      return { message, lease: this.#leases.take(message as Message<unknown>) };
    });
  }

  /** Handles messages while there is time, and releases the others. */
  async #workOn(batch: readonly Item[], signal: AbortSignal): Promise<void> {
    const done = new Set<Item>();
    try {
      for (const item of batch) {
        if (signal.aborted) break;
        if (item.lease.lost || !await this.#workOnOne(item, signal)) continue;
        done.add(item);
        await item.lease.stop();
        this.#queueAcknowledge(item.message);
      }
    } catch (error) {
      await Promise.allSettled([this.#acknowledging]);
      throw error;
    } finally {
      await this.#release(batch.filter((it) => !it.message.finalized && !done.has(it)));
    }
  }

  /** Acknowledges a message. Messages that finish during an earlier call share the next one. */
  #queueAcknowledge(message: Received): void {
    this.#done.push(message);
    if (this.#acknowledging !== undefined) return;
    this.#acknowledging = this.#acknowledgeDone();
    this.#acknowledging.catch(() => {}); // the next await of it throws
  }

  async #acknowledgeDone(): Promise<void> {
    while (this.#done.length > 0) {
      this.counts.processed += await this.#acknowledge(this.#done.splice(0));
    }
    this.#acknowledging = undefined;
  }

  /** Handles one message. Returns true when it must be acknowledged. */
  async #workOnOne({ message, lease }: Item, signal: AbortSignal): Promise<boolean> {
    const fault = messageFault(message.body);
    if (fault !== undefined) {
      await lease.stop();
      await message.deadLetter({ reason: "malformed", error: fault });
      this.counts.failed++;
      return false;
    }
    const handler = handlerFor(this.#member.options, message.body.type);
    if (handler === undefined) {
      await lease.stop();
      await archive(this.#member.options, message);
      this.counts.archived++;
      return false;
    }
    try {
      await abortable(Promise.resolve().then(() => handler(message.body, { signal })), signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false; // cancelled, not failed: the message is released
      await lease.stop();
      if (isRetryLaterError(error)) {
        const delayMs = Math.min(error.delayMs ?? 0, MAX_VISIBILITY_MS);
        await message.nack({ delayMs, countsAttempt: false });
        this.counts.released++;
      } else {
        await message.deadLetter({ reason: "handler_error", error: errorText(error) });
        this.counts.failed++;
      }
      return false;
    }
  }

  async #acknowledge(messages: readonly Received[]): Promise<number> {
    if (messages.length === 0) return 0;
    if (this.#inbox.acknowledgeMany !== undefined) {
      return (await this.#inbox.acknowledgeMany(messages)).filter(Boolean).length;
    }
    const results = await Promise.allSettled(messages.map((message) => message.acknowledge()));
    return results.filter(({ status }) => status === "fulfilled").length;
  }

  async #release(items: readonly Item[]): Promise<void> {
    const results = await Promise.allSettled(items.map(async ({ message, lease }) => {
      await lease.stop();
      await message.release();
    }));
    this.counts.released += results.filter(({ status }) => status === "fulfilled").length;
  }
}
