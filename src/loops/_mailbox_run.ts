import { type Deferred, deferred, onAbort } from "../_promises.ts";
import { EventLoopYield } from "../_event_loop_yield.ts";
import type { CancelledError } from "../errors.ts";
import type { Leases } from "../lease/lease_extender.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import type { MessageCounts, RunOptions } from "../lifecycle/runnable.ts";
import {
  type DeadLetterReason,
  type Mailbox,
  MAX_BATCH,
  type Message,
} from "../mailbox/mailbox.ts";
import { isObserved } from "../telemetry/open_telemetry.ts";
import { MessageContext, type WorkShared } from "./handler.ts";
import { type Decision, handle, handleObserved, type MailboxRunConfig } from "./_handle.ts";
import { Item, Ledger, type Outcome } from "./_ledger.ts";
import { Receiver } from "./_receiver.ts";
import { Settler } from "./_settler.ts";

/**
 * One run of a mailbox loop.
 *
 * ```text
 * receive ─▶ waiting ─▶ running ─▶ settling ─▶ settled
 *               └── a stop ──▶ released
 * ```
 *
 * A slot is free when its handler has ended: settling overlaps with the next receive.
 *
 * A message that was delivered more often than it may fail is a suspect: its handler ended the process
 * each time, or it was in flight beside the message that did. A suspect runs alone, while the loop holds
 * no other message, so that the next crash tells which message causes it.
 */
export class MailboxRun<T, R> {
  readonly #config: MailboxRunConfig<T, R>;
  readonly #context: LoopContext;
  readonly #options: RunOptions;
  readonly #receiver: Receiver<T, R>;
  readonly #settler: Settler<T, R, Item<T, R>>;
  readonly #ledger = new Ledger<T, R>();
  readonly #waiting: Item<T, R>[] = [];
  readonly #shared: WorkShared;
  readonly #leases: Leases;
  readonly #turns: EventLoopYield;
  #running = 0;
  /** Waiting items start in the next turn of the event loop. */
  #yielding = false;
  /** Suspects were received: receive one message at a time. */
  #isolating = false;
  /** A suspect runs. */
  #alone = false;
  #slotFree: Deferred<void> | undefined;
  #allSettled: Deferred<void> | undefined;

  constructor(config: MailboxRunConfig<T, R>, context: LoopContext, options: RunOptions) {
    this.#config = config;
    this.#context = context;
    this.#options = options;
    const { visibilityTimeoutMs = 300_000 } = options;
    this.#receiver = new Receiver(config, context.stopping, options);
    this.#settler = new Settler(
      config.mailbox,
      config.clock,
      config.log,
      { leaseMs: visibilityTimeoutMs, signal: context.signal },
      (item, outcome) => this.#finish(item, outcome),
    );
    this.#shared = { stopping: context.stopping, heartbeat: config.heartbeat, log: config.log };
    this.#turns = EventLoopYield.of(config.clock);
    this.#leases = config.extender.leases({
      mailbox: config.mailbox as Mailbox<unknown>,
      visibilityTimeoutMs,
    });
  }

  get ready(): boolean {
    return this.#receiver.ready;
  }

  get counts(): MessageCounts {
    return this.#ledger.counts;
  }

  async execute(): Promise<void> {
    const { stopping, signal } = this.#context;
    const unlinks = [
      onAbort(stopping, () => this.#onStop()),
      onAbort(signal, () => this.#cancelAll(signal.reason)),
    ];
    try {
      const preparing = this.#leases.begin();
      if (preparing !== undefined) await preparing;
      await this.#receiveAll();
      if (this.#ledger.open.size > 0) await (this.#allSettled = deferred()).promise;
    } finally {
      for (const unlink of unlinks) unlink();
      this.#leases.end();
    }
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#receiver.endWait();
  }

  /** Releases the messages whose handlers still run. */
  async abandon(): Promise<void> {
    const isRunning = ({ context, message }: Item<T, R>) => context && !message.finalized;
    const items = [...this.#ledger.open].filter(isRunning);
    for (const { lease } of items) await lease.stop();
    await this.#settler.release(items.map(({ message }) => message));
    for (const item of items) {
      const { finalized, settlement = "released" } = item.message;
      if (finalized) this.#ledger.close(item, settlement);
    }
  }

  async #receiveAll(): Promise<void> {
    const { maxIterations = Infinity, untilEmpty = false } = this.#options;
    const { admission, mailbox } = this.#config;
    const { stopping } = this.#context;
    for (let received = 0; received < maxIterations && !mailbox.closed;) {
      const waiting = admission(stopping) ?? this.#turns.next();
      if (waiting !== undefined) await waiting;
      if (stopping.aborted) return;
      const free = this.#free;
      if (free === 0) {
        await this.#change();
        continue;
      }
      // Read before the receive: a handler that ends meanwhile may have sent a message.
      const allSettled = this.#ledger.open.size === 0;
      const messages = await this.#receiver.receive(free, this.#running === 0);
      if (messages === undefined) continue;
      received++;
      this.#take(messages);
      if (untilEmpty && messages.length === 0) {
        if (allSettled) return;
        if (this.#ledger.open.size > 0) await this.#change();
      }
    }
  }

  /** How many more messages may be received now. */
  get #free(): number {
    const { concurrency, prefetch } = this.#config;
    const open = this.#ledger.open.size;
    if (this.#isolating) return open === 0 ? 1 : 0;
    // Receive ahead in batches, not one message for each handler that ends.
    if (this.#waiting.length > prefetch / 2) return 0;
    const slots = concurrency + prefetch - this.#running - this.#waiting.length;
    // Messages that are being settled take no slot, but their number is limited.
    const unsettled = open - this.#running - this.#waiting.length;
    return Math.max(0, Math.min(slots, MAX_BATCH, concurrency + MAX_BATCH - unsettled));
  }

  /** Resolves when a slot becomes free or a stop begins. */
  #change(): Promise<void> {
    return (this.#slotFree = deferred()).promise;
  }

  #take(messages: readonly Message<T, R>[]): void {
    let suspects = false;
    for (const message of messages) {
      const item = new Item(message, this.#leases.take(message as Message<unknown>));
      this.#config.track(item);
      this.#ledger.add(item);
      this.#waiting.push(item);
      suspects ||= this.#isSuspect(item);
    }
    if (suspects) this.#isolate();
    else if (messages.length > 0) this.#isolating = false;
    // The stop began during the receive: nothing has started.
    if (this.#context.stopping.aborted) this.#releaseWaiting();
    else this.#startWaiting();
  }

  #isSuspect({ message }: Item<T, R>): boolean {
    return this.#config.policy?.suspects(message.deliveryCount) ?? false;
  }

  /**
   * Releases suspects without spending an attempt, unless there is only one message and it can run alone.
   * On an engine that cannot restore attempts they run here, one after the other.
   */
  #isolate(): void {
    this.#isolating = true;
    if (this.#ledger.open.size === 1) return;
    const waiting = this.#waiting.splice(0);
    const suspects = waiting.filter((item) => this.#isSuspect(item));
    this.#waiting.push(...waiting.filter((item) => !this.#isSuspect(item)));
    if (!this.#config.mailbox.capabilities.restoresAttempts) this.#waiting.push(...suspects);
    else for (const item of suspects) this.#releaseSuspect(item);
  }

  async #releaseSuspect(item: Item<T, R>): Promise<void> {
    const options = { countsAttempt: false };
    const outcome = await this.#settler.settle(item.message, { kind: "nack", options });
    await item.lease.stop(); // afterwards: a lease that expired before would spend the attempt
    this.#finish(item, outcome === "nacked" ? "released" : outcome);
  }

  #startWaiting(): void {
    while (!this.#yielding && !this.#alone && this.#running < this.#config.concurrency) {
      const next = this.#waiting[0];
      if (next === undefined || this.#running > 0 && this.#isSuspect(next)) return;
      const nextTurn = this.#turns.next();
      if (nextTurn !== undefined) return this.#startAfter(nextTurn);
      this.#waiting.shift();
      this.#process(next);
    }
  }

  #startAfter(nextTurn: Promise<void>): void {
    this.#yielding = true;
    nextTurn.then(() => {
      this.#yielding = false;
      this.#startWaiting();
    });
  }

  async #process(item: Item<T, R>): Promise<void> {
    const { message, lease } = item;
    this.#running++;
    this.#alone = this.#isSuspect(item);
    const context = new MessageContext(this.#shared, message as Message<unknown, never>, lease);
    item.context = context;
    const decision = await (isObserved() ? handleObserved : handle)(message, context, this.#config);
    item.context = undefined;
    this.#alone = false;
    this.#running--;
    const nextStarted = this.#waiting.length > 0;
    this.#startWaiting();
    this.#receiver.onHandlerEnd(this.#running === 0, nextStarted);
    this.#onSlotFree();
    if (decision.kind === "deadLetter") await this.#beforeDeadLetter(item, decision.reason);
    const extending = lease.stop();
    if (extending !== undefined) await extending;
    // The handler, or `abandon`, may be settling the message at this moment.
    if (message.settling !== undefined) await message.settling;
    this.#settle(item, decision);
  }

  /** Settles a message whose handler has ended, and counts the outcome. */
  #settle(item: Item<T, R>, decision: Decision): void {
    const { message, lease } = item;
    if (message.finalized) this.#finish(item, message.settlement ?? "acknowledged");
    else if (lease.lost) this.#finish(item, "lost");
    else if (decision.kind === "acknowledge") this.#settler.acknowledge(item);
    else this.#settler.settle(message, decision).then((outcome) => this.#finish(item, outcome));
  }

  /** Calls the hook while the message is leased, however long the hook takes. */
  async #beforeDeadLetter({ message, lease }: Item<T, R>, reason: DeadLetterReason): Promise<void> {
    const { log, onDeadLetter } = this.#config;
    if (onDeadLetter === undefined || message.finalized || lease.lost) return;
    try {
      await onDeadLetter(message, reason);
    } catch (error) {
      log.error(`onDeadLetter failed for message ${message.id}; it is dead-lettered all the same`, {
        error,
      });
    }
  }

  #finish(item: Item<T, R>, outcome: Outcome): void {
    this.#ledger.close(item, outcome);
    this.#config.untrack(item);
    this.#onSlotFree();
    if (this.#ledger.open.size === 0) this.#allSettled?.resolve();
  }

  /** Continues to receive, if a slot is free. */
  #onSlotFree(): void {
    if (this.#slotFree !== undefined && this.#free > 0) {
      this.#slotFree.resolve();
      this.#slotFree = undefined;
    }
  }

  #onStop(): void {
    this.endWait();
    this.#slotFree?.resolve();
    this.#releaseWaiting();
  }

  async #releaseWaiting(): Promise<void> {
    const items = this.#waiting.splice(0);
    if (items.length === 0) return;
    for (const { lease } of items) await lease.stop();
    await this.#settler.release(items.map(({ message }) => message));
    for (const item of items) this.#finish(item, item.message.finalized ? "released" : "lost");
  }

  #cancelAll(reason: CancelledError): void {
    for (const { context } of this.#ledger.open) context?.cancel(reason);
  }
}
