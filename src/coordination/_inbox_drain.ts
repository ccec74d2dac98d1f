import { abortable } from "../_promises.ts";
import { errorText, isRetryLaterError } from "../errors.ts";
import type { Lease } from "../lease/lease.ts";
import { LeaseExtender } from "../lease/lease_extender.ts";
import type { Leases } from "../lease/lease_extender.ts";
import { type Mailbox, MAX_VISIBILITY_MS, type Message } from "../mailbox/mailbox.ts";
import { type Agent, archive, handlerFor } from "./agent.ts";
import { type Envelope, envelopeFault } from "./envelope.ts";
import type { DrainFigures } from "./shutdown_report.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Received = Message<Envelope>;

/** A message of a batch, leased until it is settled. */
interface Item {
  readonly message: Received;
  readonly lease: Lease;
}

/** How an inbox is drained. */
export interface DrainOptions {
  readonly maxBatch: number;
  /** How long to wait for messages that are there and cannot be had yet, before looking again. */
  readonly intervalMs: number;
  /** How long messages stay hidden should the process end in the middle; leases are kept meanwhile. */
  readonly visibilityTimeoutMs: number;
}

/**
 * Empties the inbox of an agent that is stopping. Messages are worked on one after another, in the order
 * in which they come. Each is removed when it is done, while the next one is worked on. When the time is
 * up, what was not begun goes back or to the successor, and so does what was begun and has not ended.
 */
export class InboxDrain {
  readonly figures: Writable<DrainFigures> = {
    processed: 0,
    failed: 0,
    archived: 0,
    handedOver: 0,
    givenBack: 0,
    left: undefined,
  };
  readonly #agent: Agent;
  readonly #inbox: Mailbox<Envelope>;
  readonly #options: DrainOptions;
  readonly #leases: Leases;
  /** Done, and not removed yet. */
  readonly #done: Received[] = [];
  #removing: Promise<void> | undefined;

  constructor(agent: Agent, options: DrainOptions) {
    const { clock, log } = agent.bus.board;
    this.#agent = agent;
    this.#inbox = agent.inbox;
    this.#options = options;
    this.#leases = new LeaseExtender({ clock, log }).leases({
      mailbox: agent.inbox as Mailbox<unknown>,
      visibilityTimeoutMs: options.visibilityTimeoutMs,
    });
  }

  /** True when nothing was left by the last look. */
  get isEmpty(): boolean {
    return this.figures.left === 0;
  }

  /** Works until the inbox is empty or `signal` aborts. */
  async work(signal: AbortSignal): Promise<void> {
    const { maxBatch: maxMessages, intervalMs, visibilityTimeoutMs } = this.#options;
    this.figures.left = undefined;
    let waitTimeMs = 0;
    while (!signal.aborted) {
      const options = { maxMessages, visibilityTimeoutMs, waitTimeMs, signal };
      const receiving = this.#inbox.receive(options);
      // What is done is removed meanwhile: there are engines that do both in one call.
      const [received, removed] = await Promise.allSettled([receiving, this.#removing]);
      if (received.status === "rejected") throw received.reason;
      const batch = received.value.map((message) => {
        return { message, lease: this.#leases.take(message as Message<unknown>) };
      });
      if (removed.status === "rejected") {
        await this.#giveBack(batch);
        throw removed.reason;
      }
      if (batch.length > 0) await this.#workOn(batch, signal);
      else if (await this.count() === 0) return;
      // What is there is hidden: with somebody else, or put off.
      waitTimeMs = batch.length > 0 ? 0 : intervalMs;
    }
    await this.#removing;
  }

  /** Sends what is left to the successor. A message is removed here once it is stored there. */
  async handOver(successor: string, signal: AbortSignal): Promise<void> {
    const target = await this.#agent.bus.inboxOf(successor);
    while (!signal.aborted) {
      const { maxBatch: maxMessages, visibilityTimeoutMs } = this.#options;
      const batch = await this.#inbox.receive({ maxMessages, visibilityTimeoutMs });
      if (batch.length === 0) return;
      const items = batch.map((message) => {
        return { message, lease: this.#leases.take(message as Message<unknown>) };
      });
      try {
        // With the id it has, so that one that was handed over before is not stored again.
        await Promise.all(batch.map(({ id, body }) => target.send(body, { id })));
      } catch (error) {
        await this.#giveBack(items);
        throw error;
      }
      for (const { lease } of items) await lease.stop();
      this.figures.handedOver += await this.#acknowledge(batch);
    }
  }

  /** How many are in the inbox, whatever their state. */
  async count(): Promise<number> {
    return this.figures.left = await this.#inbox.approximateCount();
  }

  /** Works on all for which there is time, and gives back the others. */
  async #workOn(batch: readonly Item[], signal: AbortSignal): Promise<void> {
    const done = new Set<Item>();
    try {
      for (const item of batch) {
        if (signal.aborted) break;
        if (item.lease.lost || !await this.#workOnOne(item, signal)) continue;
        done.add(item);
        await item.lease.stop();
        this.#remove(item.message);
      }
    } catch (error) {
      await Promise.allSettled([this.#removing]);
      throw error;
    } finally {
      await this.#giveBack(batch.filter((it) => !it.message.finalized && !done.has(it)));
    }
  }

  /** Removes a message, in one call with others that are done while an earlier call is under way. */
  #remove(message: Received): void {
    this.#done.push(message);
    if (this.#removing !== undefined) return;
    this.#removing = this.#removeDone();
    this.#removing.catch(() => {}); // the next look at it throws
  }

  async #removeDone(): Promise<void> {
    while (this.#done.length > 0) {
      this.figures.processed += await this.#acknowledge(this.#done.splice(0));
    }
    this.#removing = undefined;
  }

  /** True when the message is done, and is to be removed. */
  async #workOnOne({ message, lease }: Item, signal: AbortSignal): Promise<boolean> {
    const fault = envelopeFault(message.body);
    if (fault !== undefined) {
      await lease.stop();
      await message.bury({ reason: "malformed", error: fault });
      this.figures.failed++;
      return false;
    }
    const handler = handlerFor(this.#agent.options, message.body.type);
    if (handler === undefined) {
      await lease.stop();
      await archive(this.#agent.options, message);
      this.figures.archived++;
      return false;
    }
    try {
      await abortable(Promise.resolve().then(() => handler(message.body, { signal })), signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false; // it may have ended for that: it goes back
      await lease.stop();
      if (isRetryLaterError(error)) {
        await message.nack({
          visibilityTimeoutMs: Math.min(error.delayMs ?? 0, MAX_VISIBILITY_MS),
          spendsAttempt: false,
        });
        this.figures.givenBack++;
      } else {
        await message.bury({ reason: "handler_error", error: errorText(error) });
        this.figures.failed++;
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

  async #giveBack(items: readonly Item[]): Promise<void> {
    const results = await Promise.allSettled(items.map(async ({ message, lease }) => {
      await lease.stop();
      await message.release();
    }));
    this.figures.givenBack += results.filter(({ status }) => status === "fulfilled").length;
  }
}
