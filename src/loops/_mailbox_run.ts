import { backoffMs } from "../_backoff.ts";
import { type Deferred, deferred, onAbort } from "../_promises.ts";
import type { CancelledError } from "../errors.ts";
import type { Leases } from "../lease/leases.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import type { Figures } from "../lifecycle/figures.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import {
  type DeadLetterReason,
  type Mailbox,
  MAX_BATCH,
  type Message,
  type ReceiveOptions,
} from "../mailbox/mailbox.ts";
import { isObserved } from "../telemetry/registry.ts";
import { MessageContext, type WorkShared } from "./handler.ts";
import { Item } from "./_item.ts";
import type { MailboxRunConfig } from "./_mailbox_run_config.ts";
import { judgeObserved } from "./_observed_work.ts";
import { Settler } from "./_settler.ts";
import { judge, type Verdict } from "./_verdict.ts";

/**
 * A failing receive is tried again after pauses up to these. The longest is short, because an engine that
 * is back has work for us; half of it is random, so that a thousand workers do not come back as one.
 */
const RECEIVE_PAUSE_MS = { min: 100, max: 1_000 } as const;

const NO_COUNTS = {
  received: 0,
  acknowledged: 0,
  released: 0,
  nacked: 0,
  deadLettered: 0,
  lost: 0,
};

type Counts = typeof NO_COUNTS;

/**
 * One run of a mailbox loop.
 *
 * ```text
 * receive ─▶ waiting ─▶ at work ─▶ judged ─▶ settled
 *               └── a stop ──▶ released
 * ```
 *
 * A slot is free again when its work was judged: settling overlaps with the next receive.
 */
export class MailboxRun<T, R> {
  readonly #config: MailboxRunConfig<T, R>;
  readonly #context: LoopContext;
  readonly #options: RunOptions;
  readonly #settler: Settler<T, R, Item<T, R>>;
  readonly #waiting: Item<T, R>[] = [];
  /** Everything that was received and not settled. */
  readonly #open = new Set<Item<T, R>>();
  readonly #counts: Counts = { ...NO_COUNTS };
  readonly #shared: WorkShared;
  readonly #leases: Leases;
  #atWork = 0;
  #wait = new AbortController();
  #slotFree: Deferred<void> | undefined;
  #allSettled: Deferred<void> | undefined;
  #receiveFailures = 0;

  constructor(config: MailboxRunConfig<T, R>, context: LoopContext, options: RunOptions) {
    this.#config = config;
    this.#context = context;
    this.#options = options;
    const { visibilityTimeoutMs = 300_000 } = options;
    this.#settler = new Settler(
      config.mailbox,
      config.clock,
      config.log,
      { leaseMs: visibilityTimeoutMs, signal: context.signal },
      (item, settled) => this.#finish(item, settled ? "acknowledged" : "lost"),
    );
    this.#shared = { stopping: context.stopping, heartbeat: config.heartbeat, log: config.log };
    this.#leases = config.extender.leases({
      mailbox: config.mailbox as Mailbox<unknown>,
      visibilityTimeoutMs,
    });
  }

  get ready(): boolean {
    return this.#receiveFailures === 0;
  }

  get figures(): Figures {
    const { lost, ...counts } = this.#counts;
    return { ...counts, leftToExpire: lost + this.#open.size };
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
      if (this.#open.size > 0) await (this.#allSettled = deferred()).promise;
    } finally {
      for (const unlink of unlinks) unlink();
      this.#leases.end();
    }
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#wait.abort();
  }

  /** Gives back what is still at work. What was judged is being settled already. */
  async abandon(): Promise<void> {
    const atWork = ({ context, message }: Item<T, R>) => context && !message.finalized;
    const items = [...this.#open].filter(atWork);
    for (const { lease } of items) await lease.stop();
    this.#counts.released += await this.#settler.release(items.map(({ message }) => message));
    for (const item of items) if (item.message.finalized) this.#open.delete(item);
  }

  async #receiveAll(): Promise<void> {
    const { maxIterations = Infinity } = this.#options;
    const { admission, heartbeat, mailbox } = this.#config;
    const { stopping } = this.#context;
    for (let received = 0; received < maxIterations && !mailbox.closed;) {
      const waiting = admission(stopping);
      if (waiting !== undefined) await waiting;
      const free = this.#free;
      if (free === 0) await (this.#slotFree = deferred()).promise;
      if (stopping.aborted) return;
      if (free === 0) continue;
      try {
        const looking = this.#receiveFailures > 0;
        const messages = await mailbox.receive(this.#receiveOptions(free));
        this.#receiveFailures = 0;
        this.#take(messages);
        if (messages.length > 0 || !looking) received++;
      } catch (error) {
        await this.#pauseAfter(error);
      }
      heartbeat.beat();
    }
  }

  /** How many more messages may be received now. */
  get #free(): number {
    const { concurrency, prefetch } = this.#config;
    // Received ahead in batches, not one for each that ends.
    if (this.#waiting.length > prefetch / 2) return 0;
    const slots = concurrency + prefetch - this.#atWork - this.#waiting.length;
    // What waits for its acknowledgement takes no slot, but may not pile up either.
    const unsettled = this.#open.size - this.#atWork - this.#waiting.length;
    return Math.max(0, Math.min(slots, MAX_BATCH, concurrency + MAX_BATCH - unsettled));
  }

  #receiveOptions(maxMessages: number): ReceiveOptions {
    const { visibilityTimeoutMs = 300_000 } = this.#options;
    // After a failure only a look: it tells at once whether the engine is back, a wait would not.
    const waitTimeMs = this.#receiveFailures > 0 ? 0 : this.#options.waitTimeMs ?? 20_000;
    if (this.#wait.signal.aborted) this.#wait = new AbortController();
    return { maxMessages, visibilityTimeoutMs, waitTimeMs, signal: this.#wait.signal };
  }

  /** The longer a receive keeps failing, the rarer it is told. */
  async #pauseAfter(error: unknown): Promise<void> {
    const { clock, log, mailbox } = this.#config;
    const { min, max } = RECEIVE_PAUSE_MS;
    const failures = ++this.#receiveFailures;
    const pauseMs = backoffMs(failures, min, max);
    if (Number.isInteger(Math.log2(failures))) {
      log.warn(`could not receive from "${mailbox.name}"; trying again`, { error, failures });
    }
    await clock.sleep(pauseMs, { signal: this.#context.stopping }).catch(() => {
      // A stop began: there is nothing more to receive.
    });
  }

  #take(messages: readonly Message<T, R>[]): void {
    this.#counts.received += messages.length;
    for (const message of messages) {
      const item = new Item(message, this.#leases.take(message as Message<unknown>));
      this.#config.track(item);
      this.#open.add(item);
      this.#waiting.push(item);
    }
    // Handed over in the very moment of the stop: nothing of it was started.
    if (this.#context.stopping.aborted) this.#releaseWaiting();
    else this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#atWork < this.#config.concurrency) {
      const item = this.#waiting.shift();
      if (item === undefined) return;
      this.#process(item);
    }
  }

  async #process(item: Item<T, R>): Promise<void> {
    const { message, lease } = item;
    this.#atWork++;
    const context = new MessageContext(this.#shared, message as Message<unknown, never>, lease);
    item.context = context;
    const verdict = await (isObserved() ? judgeObserved : judge)(message, context, this.#config);
    item.context = undefined;
    this.#atWork--;
    this.#startWaiting();
    this.#onSlotFree();
    const extending = lease.stop();
    if (extending !== undefined) await extending;
    this.#settle(item, verdict);
  }

  /** Settles what was judged, once, and counts what came of it. */
  #settle(item: Item<T, R>, verdict: Verdict): void {
    const { message, lease } = item;
    if (!this.#open.has(item)) return this.#finish(item); // abandoned, and counted as released
    if (message.finalized) return this.#finish(item, "acknowledged"); // by the handler itself
    if (lease.lost) return this.#finish(item, "lost");
    if (verdict.kind === "acknowledge") this.#settler.acknowledge(item);
    else this.#giveBack(item, verdict);
  }

  async #giveBack(item: Item<T, R>, verdict: Verdict): Promise<void> {
    const { message } = item;
    const settler = this.#settler;
    switch (verdict.kind) {
      case "release":
        return this.#finish(item, await settler.release([message]) > 0 ? "released" : "lost");
      case "nack": {
        const nacked = await settler.attempt("nack", () => message.nack(verdict.options));
        return this.#finish(item, nacked ? "nacked" : "lost");
      }
      case "bury": {
        await this.#tellOfBurial(message, verdict.reason);
        const buried = await settler.attempt("bury", () => message.bury(verdict.reason));
        return this.#finish(item, buried ? "deadLettered" : "lost");
      }
    }
  }

  async #tellOfBurial(message: Message<T, R>, reason: DeadLetterReason): Promise<void> {
    try {
      await this.#config.onBury?.(message, reason);
    } catch (error) {
      this.#config.log.error(`message ${message.id} is buried although onBury failed`, { error });
    }
  }

  #finish(item: Item<T, R>, end?: keyof Counts): void {
    if (end !== undefined) this.#counts[end]++;
    this.#config.untrack(item);
    this.#open.delete(item);
    this.#onSlotFree();
    if (this.#open.size === 0) this.#allSettled?.resolve();
  }

  /** Wakes the receiver, if it waits and there is room. */
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
    const released = await this.#settler.release(items.map(({ message }) => message));
    this.#counts.released += released;
    this.#counts.lost += items.length - released;
    for (const item of items) this.#finish(item);
  }

  #cancelAll(reason: CancelledError): void {
    for (const { context } of this.#open) context?.cancel(reason);
  }
}
