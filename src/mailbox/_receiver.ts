import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { deferred, onAbort, settlesWithin, untilAnswered } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Delivery, Handover, Maybe, Received } from "./engine.ts";
import type { EngineMessage, Storage } from "./_engine_message.ts";
import { MailboxClosedError } from "./errors.ts";
import {
  DEFAULT_VISIBILITY_TIMEOUT_MS,
  MAX_BATCH,
  type Message,
  type ReceiveOptions,
} from "./mailbox.ts";
import { type Opened, Opener } from "./_opener.ts";

/** How long an aborted receive waits for the engine. */
const LATE_MS = 1_000;

/** A receive that waits for messages. */
interface Waiter<B> {
  readonly max: number;
  readonly visibilityMs: number;
  /** Ends its sleep; undefined while it calls the engine. */
  wake?: (() => void) | undefined;
  /** The handover to it, and when it arrived, by the monotonic clock. */
  handover?: Handover<B> | undefined;
  handedAt?: number;
}

/**
 * Receives messages from an engine.
 *
 * Nothing polls. A receive that finds no message sleeps until the next message is due, the engine wakes it,
 * its wait time is over, or it is aborted. A wake-up lets one receive try again, and a receive that ends lets
 * the next one try: more messages may be there, or it was woken and did not try, or only it knew when the
 * next message is due. A message wakes few receives, and none is missed.
 *
 * An engine may hand over messages with a wake-up. A waiting receive with the same visibility timeout returns them
 * without calling the engine.
 *
 * Messages that arrive after an abort or a close are released.
 */
export class Receiver<T, R, B> {
  readonly #name: string;
  readonly #storage: Storage<B>;
  readonly #opener: Opener<T, R, B>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing = new AbortController();
  readonly #pending = new Set<Promise<unknown>>();
  /** The mailbox listens to the engine while there are any. */
  readonly #waiters = new Set<Waiter<B>>();
  /** The waiters that sleep. */
  readonly #sleepers = new Set<Waiter<B>>();
  #unlisten: (() => Maybe<void>) | undefined;
  /** True when the last receive that could wait slept. */
  #slept = false;
  /** Counts the wake-ups, so that a receive notices one that came during its call of the engine. */
  #wakes = 0;

  constructor(name: string, storage: Storage<B>) {
    this.#name = name;
    this.#storage = storage;
    this.#clock = storage.options.clock ?? systemClock;
    this.#log = safeLog(storage.options.log);
    this.#opener = new Opener(name, storage, this.#clock, this.#log);
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Receives messages. Resolves when one is available, or with `[]` when the wait is over. */
  async receive(options: ReceiveOptions): Promise<Message<T, R>[]> {
    const { visibilityTimeoutMs = DEFAULT_VISIBILITY_TIMEOUT_MS, signal } = options;
    const max = checkCount("maxMessages", options.maxMessages ?? 1, 1, MAX_BATCH);
    checkDuration("visibilityTimeoutMs", visibilityTimeoutMs, MAX_VISIBILITY_MS);
    const waitMs = checkDuration("waitTimeMs", options.waitTimeMs ?? 0);
    // After a receive that slept, the next one will probably sleep too, so skip the call before the wait.
    while (waitMs === 0 || !this.#slept) {
      const answer = this.#call(max, visibilityTimeoutMs, signal);
      const { messages, again } = answer instanceof Promise ? await answer : answer;
      if (messages.length > 0 || waitMs === 0 && !again) return messages;
      if (!again) break;
    }
    return await this.#track(this.#waitFor(max, visibilityTimeoutMs, waitMs, signal));
  }

  /** Ends waiting receives. Resolves soon, when no receive and no call of the engine is pending. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const { wake } of this.#sleepers) wake!();
    await Promise.allSettled(this.#pending);
  }

  async #waitFor(
    max: number,
    visibilityMs: number,
    waitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Message<T, R>[]> {
    const endsAt = this.#clock.monotonic() + waitMs;
    const waiter: Waiter<B> = { max, visibilityMs };
    this.#slept = false;
    this.#waiters.add(waiter);
    this.#unlisten ??= this.#storage.engine.onWake((handover) => this.#onWake(handover));
    try {
      for (;;) {
        const wakes = this.#wakes;
        const waits = this.#clock.monotonic() < endsAt;
        const { messages, nextDueMs } = await this.#callFor(waiter, signal, waits);
        const leftMs = endsAt - this.#clock.monotonic();
        const isDone = messages.length > 0 || leftMs <= 0 || this.#isOver(signal);
        const isQuiet = wakes === this.#wakes && waiter.handover === undefined;
        if (!isDone && isQuiet) await this.#sleep(waiter, Math.min(leftMs, nextDueMs), signal);
        const handed = await this.#take(waiter, signal);
        if (isDone || handed.length > 0) return this.#atMost(max, [...handed, ...messages]);
      }
    } finally {
      this.#waiters.delete(waiter);
      const ending = [
        waiter.handover && this.#release(waiter.handover.deliveries),
        this.#waiters.size === 0 ? this.#stopListening() : undefined,
      ];
      this.#wakeNext();
      // The process may end a moment later.
      if (this.#isOver(signal) && ending.some((it) => it instanceof Promise)) {
        await settlesWithin(Promise.all(ending), LATE_MS, this.#clock);
      }
    }
  }

  /** Returns the first messages, and releases the others. */
  #atMost(max: number, messages: EngineMessage<T, R, B>[]): EngineMessage<T, R, B>[] {
    void this.#release(messages.splice(max).map(({ delivery }) => delivery));
    return messages;
  }

  /** Returns the messages that were handed to a waiter. */
  async #take(
    waiter: Waiter<B>,
    signal: AbortSignal | undefined,
  ): Promise<EngineMessage<T, R, B>[]> {
    const { handover } = waiter;
    if (handover === undefined || this.#isOver(signal)) return [];
    waiter.handover = undefined;
    return (await this.#opener.open(handover, waiter.handedAt)).messages;
  }

  #stopListening(): Maybe<void> {
    const unlisten = this.#unlisten;
    this.#unlisten = undefined;
    return unlisten?.();
  }

  #isOver(signal: AbortSignal | undefined): boolean {
    return this.closed || signal?.aborted === true;
  }

  /** Resolves after `ms`, by a wake-up, or when `signal` aborts. */
  async #sleep(waiter: Waiter<B>, ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = deferred();
    const cancel = this.#clock.schedule(ms, resolve);
    const unlink = onAbort(signal, resolve);
    waiter.wake = resolve;
    this.#slept = true;
    this.#sleepers.add(waiter);
    await promise;
    this.#sleepers.delete(waiter);
    waiter.wake = undefined;
    cancel();
    unlink();
  }

  /** Gives a handover to a matching waiter, first to one that sleeps, or lets one waiter call the engine. */
  #onWake(handover: Handover<B> | undefined): void {
    if (handover === undefined) {
      this.#wakes++;
      return this.#wakeNext();
    }
    for (const waiter of [...this.#sleepers, ...this.#waiters]) {
      const fits = waiter.handover === undefined && waiter.visibilityMs === handover.visibilityMs &&
        waiter.max >= handover.deliveries.length;
      if (!fits) continue;
      waiter.handover = handover;
      waiter.handedAt = this.#clock.monotonic();
      return this.#wake(waiter);
    }
    void this.#release(handover.deliveries);
  }

  #wakeNext(): void {
    for (const waiter of this.#sleepers) return this.#wake(waiter);
  }

  #wake(waiter: Waiter<B>): void {
    this.#sleepers.delete(waiter);
    waiter.wake?.();
  }

  /** Calls the engine for a waiter. If the call fails, the receive still returns messages that were handed to it. */
  async #callFor(
    waiter: Waiter<B>,
    signal: AbortSignal | undefined,
    waits: boolean,
  ): Promise<Opened<T, R, B>> {
    try {
      return await this.#call(waiter.max, waiter.visibilityMs, signal, waits);
    } catch (error) {
      if (waiter.handover === undefined) throw error;
      return nothing();
    }
  }

  /** Calls the engine once, without waiting for messages. */
  #call(
    max: number,
    visibilityMs: number,
    signal: AbortSignal | undefined,
    waits = false,
  ): Maybe<Opened<T, R, B>> {
    if (this.#isOver(signal)) return nothing();
    const answer = this.#storage.engine.receive(max, visibilityMs, waits);
    if (!(answer instanceof Promise)) return this.#opener.open(answer);
    return this.#track(this.#withinPatience(this.#openOrRelease(answer, signal), signal));
  }

  /** Makes `close` wait for `pending`. */
  #track<V>(pending: Promise<V>): Promise<V> {
    this.#pending.add(pending);
    const end = () => void this.#pending.delete(pending);
    pending.then(end, end);
    return pending;
  }

  async #openOrRelease(
    receiving: Promise<Received<B>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R, B>> {
    const answer = await receiving;
    if (!this.#isOver(signal)) return await this.#opener.open(answer);
    await this.#release(answer.deliveries);
    return nothing();
  }

  /**
   * Releases deliveries that no receive returns. Resolves after the first attempt. Repeats a failed release until the
   * mailbox is closed, because no handler would get the messages before their visibility timeout passes.
   */
  #release(deliveries: readonly Delivery<B>[]): Promise<unknown> {
    if (deliveries.length === 0) return Promise.resolve();
    const { promise: tried, resolve: onTried } = deferred();
    const fields = { mailbox: this.#name, ids: deliveries.map(({ id }) => id) };
    const release = async () => await this.#storage.engine.release(deliveries);
    const repeated = () => release().catch(unlessClosed);
    let failures = 0;
    const releasing = untilAnswered(repeated, this.#clock, this.#closing.signal, (error) => {
      onTried();
      if (failures++ === 0) this.#log.warn("release failed; trying again", { ...fields, error });
    });
    return Promise.race([tried, this.#track(releasing)]);
  }

  /** Gives up on an engine that does not answer after an abort, and releases what it delivers later. */
  async #withinPatience(
    receiving: Promise<Opened<T, R, B>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R, B>> {
    const gaveUp = deferred<Opened<T, R, B>>();
    let cancel: Cancel | undefined;
    const unlinks = [signal, this.#closing.signal].map((abort) =>
      onAbort(abort, () => {
        cancel ??= this.#clock.schedule(LATE_MS, () => {
          void receiving.then(
            ({ messages }) => this.#release(messages.map(({ delivery }) => delivery)),
            (error) => this.#log.warn("late receive failed", { mailbox: this.#name, error }),
          );
          gaveUp.resolve(nothing());
        });
      })
    );
    try {
      return await Promise.race([receiving, gaveUp.promise]);
    } finally {
      for (const unlink of unlinks) unlink();
      cancel?.();
    }
  }
}

/** Ends the repetitions of a queue whose mailbox has closed the connection that they share. */
function unlessClosed(error: unknown): void {
  if (!(error instanceof MailboxClosedError)) throw error;
}

/** The result of a call that was not made, or came too late. */
function nothing<T, R, B>(): Opened<T, R, B> {
  return { messages: [], nextDueMs: Infinity };
}
