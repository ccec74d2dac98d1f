import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Maybe, Received } from "./engine.ts";
import type { Storage } from "./_engine_message.ts";
import {
  DEFAULT_VISIBILITY_TIMEOUT_MS,
  MAX_BATCH,
  type Message,
  type ReceiveOptions,
} from "./mailbox.ts";
import { type Opened, Opener } from "./_opener.ts";

/** How long an aborted receive waits for the answer of the engine. */
const LATE_MS = 1_000;

/**
 * Receives messages from an engine.
 *
 * Nothing polls. A receive that finds no message sleeps until the next message is due, the engine wakes it,
 * its wait time is over, or it is aborted. A wake-up lets one receive try again, and a receive that ends lets
 * the next one try: more messages may be there, or it was woken and did not try, or only it knew when the
 * next message is due. A message wakes few receives, and none is missed.
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
  /** Each wakes one receive that sleeps. */
  readonly #sleepers = new Set<() => void>();
  /** How many receives wait. The engine is listened to while one does. */
  #waiting = 0;
  #unlisten: (() => Maybe<void>) | undefined;
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
    for (;;) {
      const answer = this.#call(max, visibilityTimeoutMs, signal);
      const { messages, again } = answer instanceof Promise ? await answer : answer;
      if (messages.length > 0 || waitMs === 0 && !again) return messages;
      if (!again) break;
    }
    return await this.#waitFor(max, visibilityTimeoutMs, waitMs, signal);
  }

  /** Ends waiting receives, and resolves soon, when no call of the engine is pending. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const wake of this.#sleepers) wake();
    await Promise.allSettled(this.#pending);
  }

  async #waitFor(
    max: number,
    visibilityMs: number,
    waitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Message<T, R>[]> {
    const endsAt = this.#clock.monotonic() + waitMs;
    this.#waiting++;
    this.#unlisten ??= this.#storage.engine.onWake(() => {
      this.#wakes++;
      this.#wakeNext();
    });
    try {
      for (;;) {
        const wakes = this.#wakes;
        const { messages, nextDueMs } = await this.#call(max, visibilityMs, signal);
        const leftMs = endsAt - this.#clock.monotonic();
        if (messages.length > 0 || leftMs <= 0 || this.#isOver(signal)) return messages;
        if (wakes === this.#wakes) await this.#sleep(Math.min(leftMs, nextDueMs), signal);
      }
    } finally {
      this.#wakeNext();
      const leaving = --this.#waiting === 0 ? this.#stopListening() : undefined;
      // The process may end a moment later.
      if (leaving instanceof Promise && this.#isOver(signal)) await leaving;
    }
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
  async #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = deferred();
    const cancel = this.#clock.schedule(ms, resolve);
    const unlink = onAbort(signal, resolve);
    this.#sleepers.add(resolve);
    await promise;
    this.#sleepers.delete(resolve);
    cancel();
    unlink();
  }

  #wakeNext(): void {
    for (const wake of this.#sleepers) {
      this.#sleepers.delete(wake);
      return wake();
    }
  }

  /** Calls the engine once, without waiting for messages. */
  #call(
    max: number,
    visibilityMs: number,
    signal: AbortSignal | undefined,
  ): Maybe<Opened<T, R>> {
    if (this.#isOver(signal)) return nothing();
    const answer = this.#storage.engine.receive(max, visibilityMs);
    if (!(answer instanceof Promise)) return this.#opener.open(answer);
    const receiving = this.#withinPatience(this.#openOrRelease(answer, signal), signal);
    this.#pending.add(receiving);
    const end = () => void this.#pending.delete(receiving);
    receiving.then(end, end);
    return receiving;
  }

  async #openOrRelease(
    receiving: Promise<Received<B>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R>> {
    const answer = await receiving;
    if (!this.#isOver(signal)) return await this.#opener.open(answer);
    try {
      if (answer.deliveries.length > 0) await this.#storage.engine.release(answer.deliveries);
    } catch (error) {
      this.#log.warn("release failed; the messages reappear when their visibility timeout passes", {
        mailbox: this.#name,
        ids: answer.deliveries.map(({ id }) => id),
        error,
      });
    }
    return nothing();
  }

  /** Gives up on an engine that does not answer after an abort, and releases what it delivers later. */
  async #withinPatience(
    receiving: Promise<Opened<T, R>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R>> {
    const gaveUp = deferred<Opened<T, R>>();
    let cancel: Cancel | undefined;
    const unlinks = [signal, this.#closing.signal].map((abort) =>
      onAbort(abort, () => {
        cancel ??= this.#clock.schedule(LATE_MS, () => {
          this.#releaseLate(receiving);
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

  async #releaseLate(receiving: Promise<Opened<T, R>>): Promise<void> {
    try {
      const { messages } = await receiving;
      for (const message of messages) await message.release();
    } catch (error) {
      this.#log.warn("late receive failed", { mailbox: this.#name, error });
    }
  }
}

/** The result of a call that was not made, or came too late. */
function nothing<T, R>(): Opened<T, R> {
  return { messages: [], nextDueMs: Infinity };
}
