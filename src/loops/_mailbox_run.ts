import { EventLoopYield } from "../_event_loop_yield.ts";
import { type Deferred, deferred, onAbort } from "../_promises.ts";
import { CancelledError } from "../errors.ts";
import type { Leases } from "../lease/lease_extender.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import type { MessageCounts, MessageInFlight, RunOptions } from "../lifecycle/runnable.ts";
import { type Mailbox, MAX_BATCH, type Message } from "../mailbox/mailbox.ts";
import { isObserved } from "../telemetry/open_telemetry.ts";
import { handle, MessageContext, type RunScope } from "./handler.ts";
import { observed } from "./_observed.ts";
import { RunReceiver } from "./_run_receiver.ts";
import {
  Item,
  messagesInFlight,
  type RunConfig,
  SUSPECT_WAIT_MS,
  SuspectTurn,
} from "./_run_config.ts";
import { Settler } from "./_settler.ts";

const WAITS = { waits: true } as const;

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
 * A message whose deliveries ended unsettled twice is a suspect: its handler ended the process, or it was in
 * flight beside the message that did. A suspect runs alone, while its loop holds no other message and no other
 * loop of the process runs a suspect, so that the next crash tells which message causes it.
 */
export class MailboxRun<T, R> {
  readonly #config: RunConfig<T, R>;
  readonly #context: LoopContext;
  readonly #options: RunOptions;
  readonly #settler: Settler<T, R>;
  readonly #waiting: Item<T, R>[] = [];
  readonly #scope: RunScope;
  readonly #leases: Leases;
  readonly #turns: EventLoopYield;
  readonly #receiver: RunReceiver<T, R>;
  #running = 0;
  /** Waiting items start in the next turn of the event loop. */
  #yielding = false;
  /** Suspects were received: receive one message at a time. */
  #isolating = false;
  /** A suspect runs. */
  #alone = false;
  readonly #suspectTurn: SuspectTurn;
  /** Resolves when a slot becomes free, all messages are settled, or a stop begins. */
  #slotFree: Deferred<void> | undefined;
  #allSettled: Deferred<void> | undefined;

  constructor(config: RunConfig<T, R>, context: LoopContext, options: RunOptions) {
    const { mailbox, visibilityTimeoutMs, clock, heartbeat, log } = config;
    this.#config = config;
    this.#context = context;
    this.#options = options;
    this.#settler = new Settler(config, context.signal, (item) => this.#onSettled(item));
    this.#scope = { stopping: context.stopping, heartbeat, log };
    this.#turns = EventLoopYield.of(clock);
    this.#suspectTurn = SuspectTurn.of(clock);
    this.#receiver = new RunReceiver(config, options, {
      stopping: context.stopping,
      isIdle: () => this.#running === 0,
      onCancelled: (id) => this.#onCancelled(id),
    });
    this.#leases = config.extender.leases({
      mailbox: mailbox as Mailbox<unknown>,
      visibilityTimeoutMs,
      onLost: (message, error) => this.#settler.cancel(error, message),
    });
  }

  /** False while receives fail. */
  get ready(): boolean {
    return this.#receiver.ready;
  }

  get counts(): MessageCounts {
    return this.#settler.counts;
  }

  get messagesInFlight(): readonly MessageInFlight[] {
    const open = this.#settler.open as Iterable<Item<unknown, never>>;
    return messagesInFlight(open, this.#config.clock.monotonic());
  }

  async execute(): Promise<void> {
    const { stopping, signal } = this.#context;
    const unlinks = [
      onAbort(stopping, () => this.#onStop()),
      onAbort(signal, () => this.#settler.cancel(signal.reason)),
    ];
    try {
      this.#receiver.begin();
      const preparing = this.#leases.begin();
      if (preparing !== undefined) await preparing;
      await this.#receiveAll();
      if (this.#settler.open.size > 0) await (this.#allSettled = deferred()).promise;
    } finally {
      for (const unlink of unlinks) unlink();
      this.#receiver.end();
      this.#leases.end();
    }
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#receiver.endWait();
  }

  /** Releases the messages whose handlers still run. */
  abandon(): Promise<void> {
    return this.#settler.abandon();
  }

  async #receiveAll(): Promise<void> {
    const { maxIterations = Infinity, maxMessages = Infinity, untilEmpty = false } = this.#options;
    const { admission, mailbox } = this.#config;
    const { stopping } = this.#context;
    const { open } = this.#settler;
    for (let received = 0; received < maxIterations && !mailbox.closed;) {
      const waiting = admission(stopping) ?? this.#turns.next();
      if (waiting !== undefined) await waiting;
      if (stopping.aborted || this.#settler.settled >= maxMessages) return;
      const free = this.#free;
      if (free === 0) {
        await (this.#slotFree = deferred()).promise;
        continue;
      }
      // Read before the receive: a handler that ends meanwhile may have sent a message.
      const allSettled = open.size === 0;
      const answer = await this.#receiver.receive(free);
      if (answer === undefined) continue;
      const { messages, cancelled } = answer;
      received++;
      this.#take(messages, cancelled);
      if (untilEmpty && messages.length === 0) {
        if (allSettled) return;
        if (open.size > 0) await (this.#slotFree = deferred()).promise;
      }
    }
  }

  /** How many more messages may be received now. */
  get #free(): number {
    const { concurrency, prefetch } = this.#config;
    const { maxMessages = Infinity } = this.#options;
    const open = this.#settler.open.size;
    if (this.#isolating) return open === 0 ? 1 : 0;
    // Receive ahead in batches, not one message for each handler that ends.
    if (this.#waiting.length > prefetch / 2) return 0;
    const slots = concurrency + prefetch - this.#running - this.#waiting.length;
    // Messages that are being settled take no slot, but their number is limited.
    const unsettled = open - this.#running - this.#waiting.length;
    const left = maxMessages - this.#settler.settled - open;
    return Math.max(0, Math.min(slots, MAX_BATCH, concurrency + MAX_BATCH - unsettled, left));
  }

  #take(messages: readonly Message<T, R>[], cancelled: readonly string[]): void {
    const { policy } = this.#config;
    let suspects = false;
    let now: number | undefined;
    for (const message of messages) {
      const isSuspect = policy?.suspects(message) ?? false;
      const lease = this.#leases.take(message as Message<unknown>, WAITS);
      const item = new Item(message, lease, isSuspect);
      this.#config.track(item);
      this.#settler.add(item);
      this.#waiting.push(item);
      suspects ||= isSuspect;
      now = item.since;
    }
    for (const id of cancelled) this.#onCancelled(id); // before a handler starts
    if (suspects) this.#isolate();
    else if (messages.length > 0) this.#isolating = false;
    // The stop began during the receive: nothing has started.
    if (this.#context.stopping.aborted) this.#settler.releaseUnstarted(this.#waiting.splice(0));
    else this.#startWaiting(now ?? this.#config.clock.monotonic());
  }

  /**
   * Releases suspects without an attempt, unless there is only one message and it can run alone. On an engine
   * that cannot restore attempts they run here, one after the other.
   */
  #isolate(): void {
    const isMyTurn = this.#suspectTurn.claim(this);
    this.#isolating = isMyTurn;
    if (this.#settler.open.size === 1 && isMyTurn) return;
    this.#suspectTurn.end(this);
    const waiting = this.#waiting.splice(0);
    const suspects = waiting.filter(({ isSuspect }) => isSuspect);
    this.#waiting.push(...waiting.filter(({ isSuspect }) => !isSuspect));
    if (!this.#config.mailbox.capabilities.restoresAttempts) this.#waiting.push(...suspects);
    else suspects.forEach((it) => this.#settler.releaseSuspect(it, isMyTurn ? 0 : SUSPECT_WAIT_MS));
  }

  /** Starts waiting items. `now` was read in this turn: one reading serves all items that start in it. */
  #startWaiting(now: number): void {
    while (!this.#yielding && !this.#alone && this.#running < this.#config.concurrency) {
      const next = this.#waiting[0];
      if (next === undefined || this.#running > 0 && next.isSuspect) return;
      const nextTurn = this.#turns.next();
      if (nextTurn !== undefined) {
        this.#yielding = true;
        return void nextTurn.then(() => {
          this.#yielding = false;
          this.#startWaiting(this.#config.clock.monotonic());
        });
      }
      this.#waiting.shift();
      // Another worker may have received a message that waited here for too long.
      if (next.lease.lost || next.lease.expired(now)) {
        this.#settler.settle(next, { kind: "release" });
      } else this.#process(next, now);
    }
  }

  /** Calls the handler, records how long it takes, and settles the message. */
  async #process(item: Item<T, R>, startedAt: number): Promise<void> {
    const { message, lease } = item;
    const config = this.#config;
    this.#running++;
    this.#alone = item.isSuspect;
    const context = new MessageContext(this.#scope, message as Message<unknown, never>, lease);
    item.context = context;
    item.startedAt = startedAt;
    lease.beat(startedAt);
    const decision = isObserved()
      ? await observed(message, config.mailbox.name, () => handle(message, context, config), config)
      : await handle(message, context, config);
    // Before the slot is free: the next message has to wait.
    if (decision.kind === "nack" && decision.pauseMs !== undefined) {
      await this.#settler.pauseQueue(decision.pauseMs, this.#waiting.splice(0));
    }
    item.context = undefined;
    this.#alone = false;
    this.#running--;
    const endedAt = config.clock.monotonic();
    config.durations.record(endedAt - startedAt);
    const nextStarted = this.#waiting.length > 0;
    this.#startWaiting(endedAt);
    this.#beat(nextStarted);
    this.#onSlotFree();
    this.#settler.settle(item, decision);
  }

  /**
   * Updates the heartbeat after a handler has ended. An idle loop that waits for messages rests until the
   * wait is over. If neither a receive nor a handler runs, the next receive beats when it returns.
   */
  #beat(nextStarted: boolean): void {
    const { heartbeat } = this.#config;
    const { waitingMs } = this.#receiver;
    if (this.#running === 0 && waitingMs !== undefined) heartbeat.rest(waitingMs);
    else if (nextStarted || waitingMs !== undefined) heartbeat.beat();
  }

  #onSettled(item: Item<T, R>): void {
    this.#config.untrack(item);
    if (item.isSuspect) this.#suspectTurn.end(this);
    this.#onSlotFree();
    if (this.#settler.open.size === 0) this.#allSettled?.resolve();
  }

  /** Continues to receive, if a slot is free or the last message is settled. */
  #onSlotFree(): void {
    if (this.#slotFree === undefined) return;
    if (this.#free === 0 && this.#settler.open.size > 0) return;
    this.#slotFree.resolve();
    this.#slotFree = undefined;
  }

  #onStop(): void {
    this.endWait();
    this.#slotFree?.resolve();
    this.#settler.releaseUnstarted(this.#waiting.splice(0));
  }

  /** Ends the work on a message that the mailbox has deleted. */
  #onCancelled(id: string): void {
    for (const item of this.#settler.open) {
      if (item.id !== id || item.isCancelled) continue;
      item.isCancelled = true;
      item.lease.stop(); // there is nothing to extend
      item.context?.cancel(new CancelledError("cancelled", `message ${id}`));
      const place = this.#waiting.indexOf(item);
      if (place < 0) continue;
      this.#waiting.splice(place, 1);
      this.#settler.settle(item, { kind: "release" });
    }
  }
}
