import { backoffMs } from "../_backoff.ts";
import type { CancelledError, LeaseLostError } from "../errors.ts";
import type { MessageCounts } from "../lifecycle/runnable.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { DeadLetterReason, Message, Settlement } from "../mailbox/mailbox.ts";
import type { Decision } from "./handler.ts";
import type { Item, RunConfig } from "./_run_config.ts";

/** The least number of attempts at an engine call before the message is left to its lease. */
const ATTEMPTS = 5;

/**
 * The pauses between failed calls of the engine. The longest is short, so that work resumes soon after the
 * engine is back; half of it is random, so that many workers do not return at the same moment.
 */
export const ENGINE_PAUSE_MS = { min: 100, max: 1_000 } as const;

/** How a message left the loop. A `lost` message is delivered again when its lease expires. */
type Outcome = Settlement | "cancelled" | "lost";

/**
 * Settles the messages of a run, and counts each received message exactly once.
 *
 * Acknowledgements that are requested during a call share the next call. A failed call is tried again. An
 * acknowledgement is tried again for as long as the lease lasts while the engine is unavailable, because the
 * work is done and must not be repeated. An expired receipt handle ends the attempts: the message belongs to
 * another worker.
 */
export class Settler<T, R> {
  readonly #config: RunConfig<T, R>;
  readonly #signal: AbortSignal;
  readonly #onSettled: (item: Item<T, R>) => void;
  readonly #open = new Set<Item<T, R>>();
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

  /** `signal` aborts shortly before the deadline of a stop: from then on no call waits for the engine. */
  constructor(
    config: RunConfig<T, R>,
    signal: AbortSignal,
    onSettled: (item: Item<T, R>) => void,
  ) {
    this.#config = config;
    this.#signal = signal;
    this.#onSettled = onSettled;
  }

  /** The items that were received and are not settled. */
  get open(): ReadonlySet<Item<T, R>> {
    return this.#open;
  }

  get counts(): MessageCounts {
    const { lost, ...counts } = this.#counts;
    return { received: this.#received, ...counts, leftToExpire: lost + this.#open.size };
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
    if (message.finalized) this.#close(item, message.settlement ?? "acknowledged");
    else if (lease.lost) this.#close(item, "lost");
    else if (decision.kind === "acknowledge") this.#acknowledge(item);
    else this.#close(item, await this.#settleOne(message, decision));
  }

  /** Releases messages whose handlers did not start. */
  async releaseUnstarted(items: readonly Item<T, R>[]): Promise<void> {
    if (items.length === 0) return;
    for (const { lease } of items) await lease.stop();
    await this.#release(items.map(({ message }) => message));
    for (const item of items) this.#close(item, item.message.finalized ? "released" : "lost");
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
    this.#close(item, outcome === "nacked" ? "released" : outcome);
  }

  /** Releases the messages whose handlers still run. Their items end when the handlers do. */
  async abandon(): Promise<void> {
    const isRunning = ({ context, message }: Item<T, R>) => context && !message.finalized;
    const items = [...this.#open].filter(isRunning);
    for (const { lease } of items) await lease.stop();
    await this.#release(items.map(({ message }) => message));
    for (const item of items) {
      const { finalized, settlement = "released" } = item.message;
      if (finalized) this.#count(item, settlement);
    }
  }

  /** Cancels the handler of one message, or all handlers. */
  cancel(reason: CancelledError | LeaseLostError, only?: Message<unknown>): void {
    for (const { message, context } of this.#open) {
      if (only === undefined || message === only) context?.cancel(reason);
    }
  }

  /** Only the first outcome of an item counts. */
  #count(item: Item<T, R>, outcome: Outcome): void {
    // The engine refuses to settle a message that it has deleted.
    const isCancelled = outcome === "lost" && item.isCancelled;
    if (this.#open.delete(item)) this.#counts[isCancelled ? "cancelled" : outcome]++;
  }

  #close(item: Item<T, R>, outcome: Outcome): void {
    this.#count(item, outcome);
    this.#onSettled(item);
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
      const items = this.#handled;
      this.#handled = [];
      const messages = items.map(({ message }) => message);
      const settled = mailbox.acknowledgeMany === undefined
        ? await Promise.all(
          messages.map((it) => this.#try("acknowledge", it, () => it.acknowledge())),
        )
        : await this.#call("acknowledge", messages, () => mailbox.acknowledgeMany!(messages));
      for (const [i, item] of items.entries()) {
        this.#close(item, settled[i] ? "acknowledged" : item.message.settlement ?? "lost");
      }
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
        const isDone = await this.#try("nack", message, () => message.nack(options));
        return isDone ? message.settlement ?? "nacked" : lost();
      }
      case "deadLetter": {
        const { reason } = decision;
        const deadLetter = () => message.deadLetter(reason);
        if (!await this.#try("dead-letter", message, deadLetter)) return lost();
        const { mailbox, log } = this.#config;
        log.error("message dead-lettered", { mailbox: mailbox.name, id: message.id, ...reason });
        return "deadLettered";
      }
    }
  }

  /** Releases messages, in one call where the engine can. Returns for each whether it was released. */
  #release(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    const { mailbox } = this.#config;
    return mailbox.releaseMany === undefined
      ? Promise.all(messages.map((it) => this.#try("release", it, () => it.release())))
      : this.#call("release", messages, () => mailbox.releaseMany!(messages));
  }

  /** Settles one message. Returns false when that failed for good. */
  async #try(what: string, message: Message<T, R>, call: () => Promise<void>): Promise<boolean> {
    const [settled = false] = await this.#call(what, [message], async () => {
      await call();
      return [true];
    });
    return settled;
  }

  /** Tries a call until it succeeds, the receipt handle has expired, or the attempts end. Never rejects. */
  async #call(
    what: string,
    messages: readonly Message<T, R>[],
    call: () => Promise<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    const { mailbox, clock, log, visibilityTimeoutMs } = this.#config;
    // A release or nack that fails happens anyway when the lease expires: a stop need not wait.
    const endsAt = what === "acknowledge" ? clock.monotonic() + visibilityTimeoutMs : 0;
    for (let attempt = 1;; attempt++) {
      try {
        return await call();
      } catch (error) {
        if (isMailboxError(error, "MessageFinalizedError")) return [];
        const away = isMailboxError(error, "MailboxConnectionError") && !this.#signal.aborted &&
          clock.monotonic() < endsAt;
        const stale = isMailboxError(error, "ReceiptHandleExpiredError");
        const closed = isMailboxError(error, "MailboxClosedError");
        const last = stale || closed || attempt >= ATTEMPTS && !away;
        if (last || attempt <= ATTEMPTS) {
          const next = last ? "reappears when its visibility timeout passes" : "trying again";
          const ids = messages.map(({ id }) => id);
          log.warn(`${what} failed`, { mailbox: mailbox.name, ids, attempt, next, error });
        }
        if (last || !await this.#pauseAfter(attempt)) return [];
      }
    }
  }

  /** Returns false when no time is left for another attempt. */
  async #pauseAfter(attempt: number): Promise<boolean> {
    const { clock, random } = this.#config;
    const signal = this.#signal;
    const ms = backoffMs(attempt, ENGINE_PAUSE_MS.min, ENGINE_PAUSE_MS.max, random);
    const pause = attempt < ATTEMPTS ? clock.sleep(ms) : clock.sleep(ms, { signal });
    return await pause.then(() => true, () => false);
  }
}
