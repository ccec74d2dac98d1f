import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { errorText } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { openEnvelope } from "./codec.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Maybe, Received } from "./engine.ts";
import { type Envelope, readEnvelope } from "./envelope.ts";
import { EngineMessage, type Storage } from "./_engine_message.ts";
import {
  type DeadLetterReason,
  DEFAULT_VISIBILITY_TIMEOUT_MS,
  MAX_BATCH,
  type Message,
  type ReceiveOptions,
} from "./mailbox.ts";

/** How long an aborted receive waits for the answer of the engine. */
const LATE_MS = 1_000;

/** The result of one call of the engine, as messages. */
interface Opened<T, R> {
  readonly messages: Message<T, R>[];
  readonly nextDueMs: number;
  /** True when the engine delivered only messages that were removed as unreadable or expired: more may follow. */
  readonly again?: boolean;
}

/**
 * Receives deliveries from an engine and makes messages of them.
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
    if (!(answer instanceof Promise)) return this.#open(answer);
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
    if (!this.#isOver(signal)) return await this.#open(answer);
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

  /** Makes messages of deliveries, except of those that cannot be decoded or have expired. */
  #open({ deliveries, nextDueMs, now }: Received<B>): Maybe<Opened<T, R>> {
    if (deliveries.length === 0) return { messages: [], nextDueMs };
    const opened: (Message<T, R> | boolean)[] = [];
    let pending: Promise<void>[] | undefined;
    for (const [i, delivery] of deliveries.entries()) {
      const message = this.#openOne(delivery, now);
      if (message instanceof Promise) {
        (pending ??= []).push(message.then((it) => void (opened[i] = it)));
        opened[i] = false;
      } else opened[i] = message;
    }
    if (pending === undefined) return { messages: opened as Message<T, R>[], nextDueMs: 0 };
    return Promise.all(pending).then(() => {
      const messages = opened.filter((it) => typeof it !== "boolean");
      // A message that could not be removed would be delivered again at once by a lease of no time.
      return { messages, nextDueMs: 0, again: messages.length === 0 && opened.includes(true) };
    });
  }

  /** Returns a promise when the codec does, and for a message that is not delivered: whether it was removed. */
  #openOne(delivery: Delivery<B>, now: number | undefined): Maybe<Message<T, R> | boolean> {
    const { codec } = this.#storage;
    try {
      const { envelope, body } = openEnvelope(codec, delivery);
      const decoded = codec.decode(body);
      const isExpired = envelope.expiresInMs !== undefined &&
        (now ?? this.#clock.now()) - delivery.enqueuedAt >= envelope.expiresInMs;
      if (!(decoded instanceof Promise) && !isExpired) {
        return new EngineMessage(delivery, decoded as T, envelope, this.#storage);
      }
      return this.#openLater(delivery, envelope, decoded, isExpired)
        .catch((error) => this.#deadLetterUnreadable(delivery, error));
    } catch (error) {
      return this.#deadLetterUnreadable(delivery, error);
    }
  }

  async #openLater(
    delivery: Delivery<B>,
    envelope: Envelope,
    decoding: unknown,
    isExpired: boolean,
  ): Promise<Message<T, R> | boolean> {
    const { codec } = this.#storage;
    const body = await decoding as T;
    const { checkpoint: stored } = delivery;
    // Waits in any case: the messages of one receive stay in order.
    const checkpoint = await (stored === undefined ? undefined : codec.decode(stored));
    if (isExpired) return await this.#expire(delivery, envelope, body, checkpoint);
    return new EngineMessage(delivery, body, envelope, this.#storage, { checkpoint });
  }

  /** Drops or dead-letters an expired message. */
  async #expire(
    delivery: Delivery<B>,
    envelope: Envelope,
    body: T,
    checkpoint: unknown,
  ): Promise<boolean> {
    if (envelope.onExpired !== "drop") {
      const error = `not delivered within ${envelope.expiresInMs} ms (expiresInMs)`;
      const reason = { reason: "expired", error };
      return await this.#deadLetter(delivery, { body }, envelope, checkpoint, reason);
    }
    try {
      const [removed = false] = await this.#storage.engine.acknowledge([delivery]);
      this.#log.debug("expired message dropped", { mailbox: this.#name, id: delivery.id });
      return removed;
    } catch (error) {
      this.#log.warn("expired message could not be dropped", {
        mailbox: this.#name,
        id: delivery.id,
        error,
      });
      return false;
    }
  }

  async #deadLetterUnreadable(delivery: Delivery<B>, cause: unknown): Promise<boolean> {
    const raw = this.#storage.codec.text(delivery.body);
    const reason = { reason: "unreadable", error: errorText(cause) };
    return await this.#deadLetter(delivery, { raw }, this.#envelopeOf(delivery), undefined, reason);
  }

  /** Dead-letters a message that no handler gets, and returns whether it did. If not, its lease expires. */
  async #deadLetter(
    delivery: Delivery<B>,
    content: { readonly body: T } | { readonly raw: string },
    envelope: Envelope,
    checkpoint: unknown,
    reason: DeadLetterReason,
  ): Promise<boolean> {
    const { codec, engine } = this.#storage;
    const fields = { mailbox: this.#name, id: delivery.id, ...reason };
    try {
      const now = this.#clock.now();
      const letter = deadLetterOf(delivery, content, envelope, checkpoint, reason, now);
      const moved = await engine.deadLetter(delivery, await letterEntry(codec, letter, envelope));
      if (moved) this.#log.warn("message dead-lettered", fields);
      return moved;
    } catch (error) {
      this.#log.error("message could not be dead-lettered", { ...fields, failure: error });
      return false;
    }
  }

  #envelopeOf(delivery: Delivery<B>): Envelope {
    try {
      return openEnvelope(this.#storage.codec, delivery).envelope;
    } catch {
      return readEnvelope({}); // the meta is what cannot be decoded
    }
  }
}

/** The result of a call that was not made, or came too late. */
function nothing<T, R>(): Opened<T, R> {
  return { messages: [], nextDueMs: Infinity };
}
