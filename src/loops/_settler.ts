import { Bag } from "../_bag.ts";
import { EventLoopYield } from "../_event_loop_yield.ts";
import { type Deferred, deferred } from "../_promises.ts";
import type { Fifo } from "../_fifo.ts";
import { CancelledError, type LeaseLostError } from "../errors.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import type { InFlight, MessageCounts, MessageInFlight } from "../lifecycle/runnable.ts";
import type { DeadLetterReason, Message, ReleaseOptions, Settlement } from "../mailbox/mailbox.ts";
import type { Decision } from "./handler.ts";
import { type Item, messagesInFlight, type RunConfig } from "./_run_config.ts";
import { SettlingCalls } from "./_settling_calls.ts";

/** How a message left the loop. A `lost` message is delivered again when its lease expires. */
type Outcome = Settlement | "cancelled" | "lost";

/**
 * Settles the messages of a run, and counts each received message exactly once.
 *
 * Acknowledgements that are requested during a call, or in one turn while more messages wait for their
 * handlers, share the next call.
 */
export class Settler<T, R> {
  readonly #config: RunConfig<T, R>;
  readonly #calls: SettlingCalls<T, R>;
  readonly #waiting: Fifo<Item<T, R>>;
  readonly #onSettled: (items: readonly Item<T, R>[]) => void;
  readonly #turns: EventLoopYield;
  readonly #open = new Bag<Item<T, R>>();
  readonly #counts: Record<Outcome, number> = {
    acknowledged: 0,
    released: 0,
    nacked: 0,
    deadLettered: 0,
    cancelled: 0,
    lost: 0,
  };
  #received = 0;
  /** Handled messages that the next call acknowledges. */
  #handled: Item<T, R>[] = [];
  #acknowledging = false;
  #allSettled: Deferred<void> | undefined;

  /**
   * The `signal` of `context` aborts shortly before the deadline of a stop: from then on no call waits for the engine.
   * `waiting` has the items whose handlers have not started.
   */
  constructor(
    config: RunConfig<T, R>,
    context: LoopContext,
    waiting: Fifo<Item<T, R>>,
    onSettled: (items: readonly Item<T, R>[]) => void,
  ) {
    this.#config = config;
    this.#calls = new SettlingCalls(config, context);
    this.#waiting = waiting;
    this.#onSettled = onSettled;
    this.#turns = EventLoopYield.of(config.clock);
  }

  /** The received items that are neither settled nor lost, including those that `abandon` released. */
  get open(): Bag<Item<T, R>> {
    return this.#open;
  }

  get counts(): MessageCounts {
    const { lost, ...counts } = this.#counts;
    const isOpen = this.#open.values().filter(({ isCounted }) => !isCounted);
    return { received: this.#received, ...counts, leftToExpire: lost + isOpen.length };
  }

  /** The progress of the messages whose handlers run. */
  get messagesInFlight(): readonly MessageInFlight[] {
    return messagesInFlight(this.#open.values(), this.#config.clock.monotonic());
  }

  /** The open messages, in the order in which they were received. */
  get inFlight(): readonly InFlight[] {
    const now = this.#config.clock.monotonic();
    const items = this.#open.values().toSorted((a, b) => a.since - b.since);
    return items.map(({ id, since }) => ({ id, ageMs: now - since }));
  }

  /** Resolves when no message is open. */
  async allSettled(): Promise<void> {
    if (this.#open.size > 0) await (this.#allSettled ??= deferred()).promise;
  }

  /** How many messages were acknowledged, nacked or dead-lettered. */
  get settled(): number {
    const counts = this.#counts;
    return counts.acknowledged + counts.nacked + counts.deadLettered;
  }

  /** Counts a received message. It is open until it is settled or lost. */
  add(item: Item<T, R>): void {
    this.#received++;
    this.#open.add(item);
  }

  /** Settles a message whose handler has ended. */
  settle(item: Item<T, R>, decision: Decision): void {
    const { message, lease } = item;
    // The common case needs no promise.
    const isPlain = decision.kind === "acknowledge" && !message.finalized &&
      message.settling === undefined;
    if (isPlain && lease.stop() === undefined && !lease.lost) this.#acknowledge(item);
    else this.#settleItem(item, decision);
  }

  /** Waits for what else happens to the message, and settles it. Extends its lease during the hook. */
  async #settleItem(item: Item<T, R>, decision: Decision): Promise<void> {
    const { message, lease } = item;
    if (decision.kind === "deadLetter") await this.#beforeDeadLetter(item, decision.reason);
    await lease.stop();
    // The handler, or `abandon`, may be settling the message at this moment.
    if (message.settling !== undefined) await message.settling;
    let outcome: Outcome;
    if (message.finalized) outcome = message.settlement ?? "acknowledged";
    else if (lease.lost) outcome = "lost";
    else if (decision.kind === "acknowledge") return this.#acknowledge(item);
    else outcome = await this.#settleOne(message, decision);
    this.#close([item], () => outcome);
  }

  /** Releases messages whose handlers did not start. */
  async releaseUnstarted(items: readonly Item<T, R>[]): Promise<void> {
    if (items.length === 0) return;
    for (const { lease } of items) await lease.stop();
    await this.#release(items.map(({ message }) => message), { unstarted: true });
    this.#close(items, ({ message }) => message.finalized ? "released" : "lost");
  }

  /** Pauses the queue for all processes, and releases the messages of this run that have not started. */
  async pauseQueue(forMs: number, unstarted: readonly Item<T, R>[]): Promise<void> {
    const { mailbox, log } = this.#config;
    try {
      await mailbox.pause({ forMs });
    } catch (error) {
      log.warn("queue could not be paused; only the message waits", {
        mailbox: mailbox.name,
        error,
      });
    }
    await this.releaseUnstarted(unstarted);
  }

  /** Releases a message without counting an attempt, so that a later receive can handle it alone. */
  async releaseSuspect(item: Item<T, R>, delayMs: number): Promise<void> {
    const options = { countsAttempt: false, delayMs };
    const outcome = await this.#settleOne(item.message, { kind: "nack", options });
    await item.lease.stop(); // afterwards: a lease that expired before would spend the attempt
    this.#close([item], () => outcome === "nacked" ? "released" : outcome);
  }

  /** Releases the messages whose handlers still run. Their items end when the handlers do. */
  async abandon(): Promise<void> {
    const isRunning = ({ context, message }: Item<T, R>) => context && !message.finalized;
    const items = this.#open.values().filter(isRunning);
    for (const { lease } of items) await lease.stop();
    await this.#release(items.map(({ message }) => message));
    for (const item of items) {
      const { finalized, settlement = "released" } = item.message;
      if (finalized) this.#count(item, settlement);
    }
  }

  /** Cancels the handler of one message, or all handlers. */
  cancel(reason: CancelledError | LeaseLostError, only?: Message<unknown>): void {
    for (const { message, context } of [...this.#open.values()]) {
      if (only === undefined || message === only) context?.cancel(reason);
    }
  }

  /** Ends the work on a message that the mailbox has deleted. */
  onCancelled(id: string): void {
    for (const item of [...this.#open.values()]) {
      if (item.id !== id || item.isCancelled) continue;
      item.isCancelled = true;
      item.lease.stop(); // there is nothing to extend
      item.context?.cancel(new CancelledError("cancelled", `message ${id}`));
      if (this.#waiting.remove(item)) this.settle(item, { kind: "release" });
    }
  }

  /** Only the first outcome of an item counts. */
  #count(item: Item<T, R>, outcome: Outcome): void {
    if (item.isCounted) return;
    item.isCounted = true;
    // The engine refuses to settle a message that it has deleted.
    const isCancelled = outcome === "lost" && item.isCancelled;
    this.#counts[isCancelled ? "cancelled" : outcome]++;
  }

  #close(
    items: readonly Item<T, R>[],
    outcomeOf: (item: Item<T, R>, index: number) => Outcome,
  ): void {
    for (let i = 0; i < items.length; i++) {
      const item = items[i]!;
      this.#count(item, outcomeOf(item, i));
      this.#open.delete(item);
    }
    this.#onSettled(items);
    if (this.#open.size > 0) return;
    this.#allSettled?.resolve();
    this.#allSettled = undefined;
  }

  /** Calls the hook while the message is leased, however long the hook takes. */
  async #beforeDeadLetter({ message, lease }: Item<T, R>, reason: DeadLetterReason): Promise<void> {
    const { log, onDeadLetter } = this.#config;
    if (onDeadLetter === undefined || message.finalized || lease.lost) return;
    try {
      await onDeadLetter(message, reason);
    } catch (error) {
      log.error("onDeadLetter failed; the message is dead-lettered all the same", {
        id: message.id,
        error,
      });
    }
  }

  /** Acknowledges the message soon, together with others. */
  #acknowledge(item: Item<T, R>): void {
    this.#handled.push(item);
    if (this.#acknowledging) return;
    this.#acknowledging = true;
    // After the promises of this turn, so that all handlers that ended by now share one call.
    queueMicrotask(() => this.#acknowledgeHandled());
  }

  async #acknowledgeHandled(): Promise<void> {
    const { mailbox } = this.#config;
    while (this.#handled.length > 0) {
      // Handlers that start and end in the same turn share the call as well.
      if (this.#waiting.size > 0) await this.#turns.end();
      const items = this.#handled;
      this.#handled = [];
      const messages = items.map(({ message }) => message);
      const settled = mailbox.acknowledgeMany === undefined
        ? await Promise.all(
          messages.map((it) => this.#calls.one("acknowledge", it, () => it.acknowledge())),
        )
        : await this.#calls.many("acknowledge", messages, () => mailbox.acknowledgeMany!(messages));
      this.#close(items, ({ message }, i) => {
        return settled[i] ? "acknowledged" : message.settlement ?? "lost";
      });
    }
    this.#acknowledging = false;
  }

  /** Releases, nacks or dead-letters a message, and returns the outcome. Never rejects. */
  async #settleOne(
    message: Message<T, R>,
    decision: Exclude<Decision, { kind: "acknowledge" }>,
  ): Promise<Outcome> {
    const lost = () => message.settlement ?? "lost"; // another call may have settled it meanwhile
    switch (decision.kind) {
      case "release":
        return (await this.#release([message]))[0] ? "released" : lost();
      case "nack": {
        const { options } = decision;
        const isDone = await this.#calls.one("nack", message, () => message.nack(options));
        return isDone ? message.settlement ?? "nacked" : lost();
      }
      case "deadLetter": {
        const { reason } = decision;
        const deadLetter = () => message.deadLetter(reason);
        if (!await this.#calls.one("dead-letter", message, deadLetter)) return lost();
        const { mailbox, log } = this.#config;
        log.error("message dead-lettered", { mailbox: mailbox.name, id: message.id, ...reason });
        return "deadLettered";
      }
    }
  }

  /** Releases messages, in one call where the engine can. Returns for each whether it was released. */
  #release(
    messages: readonly Message<T, R>[],
    options?: ReleaseOptions,
  ): Promise<readonly boolean[]> {
    const { mailbox } = this.#config;
    return mailbox.releaseMany === undefined
      ? Promise.all(messages.map((it) => this.#calls.one("release", it, () => it.release())))
      : this.#calls.many("release", messages, () => mailbox.releaseMany!(messages, options));
  }
}
