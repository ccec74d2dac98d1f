import { EventLoopYield } from "../_event_loop_yield.ts";
import { Fifo } from "../_fifo.ts";
import { type Deferred, deferred, onAbort } from "../_promises.ts";
import type { Leases } from "../lease/lease_extender.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import type { MessagesAhead, RunOptions } from "../lifecycle/runnable.ts";
import { type Mailbox, MAX_BATCH, type Message } from "../mailbox/mailbox.ts";
import { isObserved } from "../telemetry/open_telemetry.ts";
import { type Decision, handle, MessageContext, type RunScope } from "./handler.ts";
import { observed } from "./_observed.ts";
import { Prefetch } from "./_prefetch.ts";
import { RunReceiver } from "./_run_receiver.ts";
import { Item, type RunConfig, SUSPECT_WAIT_MS, SuspectTurn } from "./_run_config.ts";
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
 * A message whose deliveries ended unsettled twice is a suspect: its handler ended the process, or it was in
 * flight beside the message that did. A suspect runs alone, while its loop holds no other message and no other
 * loop of the process runs a suspect, so that the next crash tells which message causes it.
 */
export class MailboxRun<T, R> {
  /** Settles the messages, and knows which ones are open. */
  readonly settler: Settler<T, R>;
  readonly #config: RunConfig<T, R>;
  readonly #context: LoopContext;
  readonly #options: RunOptions;
  readonly #waiting = new Fifo<Item<T, R>>();
  readonly #scope: RunScope;
  readonly #leases: Leases;
  readonly #turns: EventLoopYield;
  readonly #receiver: RunReceiver<T, R>;
  readonly #prefetch: Prefetch;
  #running = 0;
  /** Waiting items start in the next turn of the event loop. */
  #yielding = false;
  /** Suspects were received: receive one message at a time. */
  #isolating = false;
  /** A suspect runs. */
  #alone = false;
  readonly #suspectTurn: SuspectTurn;
  /** Resolves when a slot becomes free, the last message is settled, or a stop begins. */
  #slotFree: Deferred<void> | undefined;

  constructor(config: RunConfig<T, R>, context: LoopContext, options: RunOptions) {
    const { mailbox, visibilityTimeoutMs, clock, heartbeat, log } = config;
    this.#config = config;
    this.#context = context;
    this.#options = options;
    const onSettled = (items: readonly Item<T, R>[]) => this.#onSettled(items);
    this.settler = new Settler(config, context, this.#waiting, onSettled);
    this.#scope = { stopping: context.stopping, heartbeat, log };
    this.#turns = EventLoopYield.of(clock);
    this.#suspectTurn = SuspectTurn.of(clock);
    this.#prefetch = Prefetch.of(config, options);
    this.#receiver = new RunReceiver(config, options, {
      stopping: context.stopping,
      isIdle: () => this.#running === 0,
      onCancelled: (id) => this.settler.onCancelled(id),
    });
    this.#leases = config.extender.leases({
      mailbox: mailbox as Mailbox<unknown>,
      visibilityTimeoutMs,
      onLost: (message, error) => this.settler.cancel(error, message),
    });
  }

  /** False while receives fail. */
  get ready(): boolean {
    return this.#receiver.ready;
  }

  get ahead(): MessagesAhead {
    return { most: this.#prefetch.size(), waiting: this.#waiting.size };
  }

  async execute(): Promise<void> {
    const { stopping, signal } = this.#context;
    const unlinks = [
      onAbort(stopping, () => this.#onStop()),
      onAbort(signal, () => this.settler.cancel(signal.reason)),
    ];
    try {
      this.#receiver.begin();
      const preparing = this.#leases.begin();
      if (preparing !== undefined) await preparing;
      await this.#receiveAll();
      await this.settler.allSettled();
    } finally {
      for (const unlink of unlinks) unlink();
      this.#receiver.end();
      this.#prefetch.end();
      this.#leases.end();
    }
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#receiver.endWait();
  }

  async #receiveAll(): Promise<void> {
    const { maxIterations = Infinity, maxMessages = Infinity, untilEmpty = false } = this.#options;
    const { admission, mailbox } = this.#config;
    const { stopping } = this.#context;
    const { open } = this.settler;
    for (let received = 0; received < maxIterations && !mailbox.closed;) {
      const waiting = admission(stopping) ?? this.#turns.next();
      if (waiting !== undefined) await waiting;
      if (stopping.aborted || this.settler.settled >= maxMessages) return;
      const free = this.#free();
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
  #free(now?: number): number {
    const { concurrency } = this.#config;
    const { maxMessages = Infinity } = this.#options;
    const open = this.settler.open.size;
    if (this.#isolating) return open === 0 ? 1 : 0;
    const slots = this.#prefetch.slots(this.#waiting.size, now);
    // Messages that are being settled take no slot, but their number is limited.
    const unsettled = open - this.#running - this.#waiting.size;
    const left = maxMessages - this.settler.settled - open;
    return Math.max(0, Math.min(slots, MAX_BATCH, concurrency + MAX_BATCH - unsettled, left));
  }

  #take(messages: readonly Message<T, R>[], cancelled: readonly string[]): void {
    const { policy } = this.#config;
    let suspects = false;
    const now = this.#config.clock.monotonic();
    const waiting = { waits: true, now };
    for (const message of messages) {
      const isSuspect = policy?.suspects(message) ?? false;
      const lease = this.#leases.take(message as Message<unknown>, waiting);
      const item = new Item(message, lease, isSuspect);
      this.settler.add(item);
      this.#waiting.push(item);
      suspects ||= isSuspect;
    }
    for (const id of cancelled) this.settler.onCancelled(id); // before a handler starts
    if (suspects) this.#isolate();
    else if (messages.length > 0) this.#isolating = false;
    // The stop began during the receive: nothing has started.
    if (this.#context.stopping.aborted) this.#releaseWaiting();
    else this.#startWaiting(now);
    this.#prefetch.watch(() => this.#waiting.peek()?.since, () => this.#releaseWaiting());
  }

  /**
   * Releases suspects without an attempt, unless there is only one message and it can run alone. On an engine
   * that cannot restore attempts they run here, one after the other.
   */
  #isolate(): void {
    const isMyTurn = this.#suspectTurn.claim(this);
    this.#isolating = isMyTurn;
    if (this.settler.open.size === 1 && isMyTurn) return;
    this.#suspectTurn.end(this);
    const waiting = this.#waiting.clear();
    const suspects = waiting.filter(({ isSuspect }) => isSuspect);
    for (const item of waiting) if (!item.isSuspect) this.#waiting.push(item);
    const { restoresAttempts } = this.#config.mailbox.capabilities;
    for (const item of suspects) {
      if (!restoresAttempts) this.#waiting.push(item);
      else this.settler.releaseSuspect(item, isMyTurn ? 0 : SUSPECT_WAIT_MS);
    }
  }

  /** Starts waiting items. `now` has just been read. */
  #startWaiting(now: number): void {
    let isFresh = true;
    while (!this.#yielding && !this.#alone && this.#running < this.#config.concurrency) {
      const next = this.#waiting.peek();
      if (next === undefined || this.#running > 0 && next.isSuspect) return;
      // The previous handler may have blocked the event loop.
      if (!isFresh) now = this.#config.clock.monotonic();
      isFresh = false;
      const nextTurn = this.#turns.next(now);
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
        this.settler.settle(next, { kind: "release" });
      } else this.#start(next, now);
    }
  }

  /** Calls the handler. */
  #start(item: Item<T, R>, startedAt: number): void {
    const { message, lease } = item;
    const config = this.#config;
    this.#running++;
    this.#prefetch.started(startedAt);
    this.#alone = item.isSuspect;
    const context = new MessageContext(this.#scope, message as Message<unknown, never>, lease);
    item.context = context;
    item.startedAt = startedAt;
    lease.beat(startedAt);
    if (!isObserved()) return handle(item, context, config, this.#end);
    const work = () =>
      new Promise<Decision>((end) => handle(item, context, config, (_, decision) => end(decision)));
    void observed(message, config.mailbox.name, work, config)
      .then((decision) => this.#end(item, decision));
  }

  /** Records how long the handler took, starts the next one, and settles the message. */
  readonly #end = (item: Item<T, R>, decision: Decision): void => {
    // Before the slot is free: the next message has to wait.
    if (decision.kind === "nack" && decision.pauseMs !== undefined) {
      const { pauseMs, ...rest } = decision;
      void this.settler.pauseQueue(pauseMs, this.#waiting.clear()).then(() =>
        this.#end(item, rest)
      );
      return;
    }
    const { clock, durations } = this.#config;
    item.context = undefined;
    this.#alone = false;
    this.#running--;
    const endedAt = clock.monotonic();
    this.#prefetch.ended(endedAt);
    durations.record(endedAt - item.startedAt);
    const nextStarted = this.#waiting.size > 0;
    this.#startWaiting(endedAt);
    this.#beat(nextStarted, endedAt);
    this.#onSlotFree(endedAt);
    this.settler.settle(item, decision);
  };

  /**
   * Updates the heartbeat after a handler has ended. An idle loop that waits for messages rests until the
   * wait is over. If neither a receive nor a handler runs, the next receive beats when it returns.
   */
  #beat(nextStarted: boolean, now: number): void {
    const { heartbeat } = this.#config;
    const { waitingMs } = this.#receiver;
    if (this.#running === 0 && waitingMs !== undefined) heartbeat.rest(waitingMs);
    else if (nextStarted || waitingMs !== undefined) heartbeat.beat(now);
  }

  #onSettled(items: readonly Item<T, R>[]): void {
    if (items.some(({ isSuspect }) => isSuspect)) this.#suspectTurn.end(this);
    this.#onSlotFree();
  }

  /** Continues to receive, if a slot is free or the last message is settled. */
  #onSlotFree(now?: number): void {
    if (this.#slotFree === undefined) return;
    if (this.#free(now) === 0 && this.settler.open.size > 0) return;
    this.#slotFree.resolve();
    this.#slotFree = undefined;
  }

  #onStop(): void {
    this.endWait();
    this.#slotFree?.resolve();
    this.#releaseWaiting();
  }

  #releaseWaiting(): void {
    this.settler.releaseUnstarted(this.#waiting.clear());
  }
}
