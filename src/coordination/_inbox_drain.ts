import { whileWanted } from "../_promises.ts";
import { errorText, isRetryLaterError } from "../errors.ts";
import { type Mailbox, MAX_VISIBILITY_MS, type Message } from "../mailbox/mailbox.ts";
import { type Agent, archive, handlerFor } from "./agent.ts";
import { type Envelope, envelopeFault } from "./envelope.ts";
import type { DrainFigures } from "./shutdown_report.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Received = Message<Envelope>;

/** How an inbox is drained. */
export interface DrainOptions {
  readonly maxBatch: number;
  /** How long to wait for messages that are there and cannot be had yet, before looking again. */
  readonly intervalMs: number;
}

/**
 * Empties the inbox of an agent that is stopping. Messages are worked on one after another, in the order
 * in which they come, and removed batch by batch. When the time is up, what was not begun goes back or
 * to the successor, and so does what was begun and has not ended.
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

  constructor(agent: Agent, options: DrainOptions) {
    this.#agent = agent;
    this.#inbox = agent.inbox;
    this.#options = options;
  }

  /** True when nothing was left by the last look. */
  get isEmpty(): boolean {
    return this.figures.left === 0;
  }

  /** Works until the inbox is empty or `signal` aborts. */
  async work(signal: AbortSignal): Promise<void> {
    const { maxBatch, intervalMs } = this.#options;
    this.figures.left = undefined;
    let waitTimeMs = 0;
    let settling: Promise<void> | undefined;
    while (!signal.aborted) {
      const receiving = this.#inbox.receive({ maxMessages: maxBatch, waitTimeMs, signal });
      // What is done is removed meanwhile: there are engines that do both in one call.
      const [received, settled] = await Promise.allSettled([receiving, settling]);
      settling = undefined;
      if (received.status === "rejected") throw received.reason;
      const batch = received.value;
      if (settled.status === "rejected") {
        await this.#giveBack(batch);
        throw settled.reason;
      }
      if (batch.length > 0) settling = this.#settle(await this.#workOn(batch, signal));
      else if (await this.count() === 0) return;
      // What is there is hidden: with somebody else, or put off.
      waitTimeMs = batch.length > 0 ? 0 : intervalMs;
    }
    await settling;
  }

  /** Sends what is left to the successor. A message is removed here once it is stored there. */
  async handOver(successor: string, signal: AbortSignal): Promise<void> {
    const target = await this.#agent.bus.inboxOf(successor);
    while (!signal.aborted) {
      const batch = await this.#inbox.receive({ maxMessages: this.#options.maxBatch });
      if (batch.length === 0) return;
      try {
        // With the id it has, so that one that was handed over before is not stored again.
        await Promise.all(batch.map(({ id, body }) => target.send(body, { id })));
      } catch (error) {
        await this.#giveBack(batch);
        throw error;
      }
      this.figures.handedOver += await this.#acknowledge(batch);
    }
  }

  /** How many are in the inbox, whatever their state. */
  async count(): Promise<number> {
    return this.figures.left = await this.#inbox.approximateCount();
  }

  /** Works on all for which there is time, gives back the others, and tells which are done. */
  async #workOn(batch: readonly Received[], signal: AbortSignal): Promise<readonly Received[]> {
    const done: Received[] = [];
    try {
      for (const message of batch) {
        if (signal.aborted) break;
        if (await this.#workOnOne(message, signal)) done.push(message);
      }
    } catch (error) {
      await this.#settle(done);
      throw error;
    } finally {
      await this.#giveBack(batch.filter((it) => !it.finalized && !done.includes(it)));
    }
    return done;
  }

  async #settle(done: readonly Received[]): Promise<void> {
    this.figures.processed += await this.#acknowledge(done);
  }

  /** True when the message is done, and is to be removed. */
  async #workOnOne(message: Received, signal: AbortSignal): Promise<boolean> {
    const fault = envelopeFault(message.body);
    if (fault !== undefined) {
      await message.bury({ reason: "malformed", error: fault });
      this.figures.failed++;
      return false;
    }
    const handler = handlerFor(this.#agent.options, message.body.type);
    if (handler === undefined) {
      await archive(this.#agent.options, message);
      this.figures.archived++;
      return false;
    }
    try {
      await whileWanted(Promise.resolve().then(() => handler(message.body, { signal })), signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false; // it may have ended for that: it goes back
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

  async #giveBack(messages: readonly Received[]): Promise<void> {
    const results = await Promise.allSettled(messages.map((message) => message.release()));
    this.figures.givenBack += results.filter(({ status }) => status === "fulfilled").length;
  }
}
