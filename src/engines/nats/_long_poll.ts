import { type Deferred, deferred, settlesWithin } from "../../_promises.ts";
import type { Cancel } from "../../clock.ts";
import type { Queue } from "./_queue.ts";
import type { Streams } from "./_streams.ts";
import type { NatsMessage, NatsSubscription } from "./nats_connection.ts";

/** A request without an answer counts as lost this long after it has expired. */
const GRACE_MS = 1_000;

/** The pause after an unexpected answer. */
const ERROR_PAUSE_MS = 1_000;

/**
 * How long a request waits on the server. A stop waits for the request to expire, because a canceled
 * request could lose a message until its redelivery, or the server could confuse it with its next
 * delivery.
 */
const MAX_POLL_MS = 250;

/**
 * After a longer suspension of this process the server may have redelivered the message; see `Leases`.
 */
const REDELIVERY_SAFE_MS = 9_000;

const REQUEST_TIMEOUT = 408;

/** How much longer a stop waits for an expired request. A frozen server must not delay a stop. */
const LATE_RESPONSE_MS = 100;

/** How long a stop waits for the release of buffered messages, which takes two calls. */
const RELEASE_TIMEOUT_MS = 500;

/** A message that a long poll has received. */
export interface BufferedMessage {
  readonly message: NatsMessage;
  /** The earliest time at which the server sent it. */
  readonly deliveredAt: number;
}

interface PendingPoll {
  readonly subscription: NatsSubscription;
  readonly startedAt: number;
  readonly cancel: Cancel;
  readonly ended: Deferred<void>;
}

/**
 * Waits for one message while receivers are waiting: `idle ─▶ polling ─▶ idle`, ended by a message or by
 * the expiry of the request. It asks the server for the next visible message and buffers it for the next
 * receive. Receivers start it after an empty receive, so it never asks for more messages than are wanted.
 */
export class LongPoll {
  readonly #queue: Queue;
  readonly #streams: Streams;
  readonly #release: (messages: readonly NatsMessage[]) => Promise<void>;
  readonly #buffered: BufferedMessage[] = [];
  #poll: PendingPoll | undefined;
  #cancelPause: Cancel | undefined;
  #releasing: Promise<unknown> = Promise.resolve();
  #closed = false;

  /** `release` releases messages that no receiver waits for. */
  constructor(
    queue: Queue,
    streams: Streams,
    release: (messages: readonly NatsMessage[]) => Promise<void>,
  ) {
    this.#queue = queue;
    this.#streams = streams;
    this.#release = release;
  }

  /** Returns up to `max` buffered messages. */
  take(max: number): BufferedMessage[] {
    return this.#buffered.splice(0, max);
  }

  /** Sends a request, unless one is open or a message is buffered. */
  start(): void {
    if (this.#poll !== undefined || this.#buffered.length > 0) return;
    this.#cancelPause?.();
    const { connection, client, clock, random } = this.#queue;
    const { pollIntervalMs } = connection.options;
    const inbox = connection.newInbox();
    const expiresMs = Math.min(pollIntervalMs * (0.75 + random.number() / 2), MAX_POLL_MS);
    const subscription = client.subscribe(inbox, {
      max: 1,
      callback: (error, message) => error ?? this.#onMessage(poll, message),
    });
    const poll: PendingPoll = this.#poll = {
      subscription,
      startedAt: clock.monotonic(),
      cancel: clock.schedule(expiresMs + GRACE_MS, () => this.restart()),
      ended: deferred(),
    };
    const request = JSON.stringify({ batch: 1, expires: Math.ceil(expiresMs) * 1_000_000 });
    client.publish(this.#streams.requestSubject, request, { reply: inbox });
  }

  /** Drops buffered messages after the consumer was replaced. They cannot be settled any more. */
  discard(): void {
    this.#buffered.length = 0;
    this.restart();
  }

  /**
   * Ends the request and wakes the receivers, which start a new one. The server may have lost the
   * request.
   */
  restart(): void {
    this.#clearPoll()?.unsubscribe();
    this.#queue.wake();
  }

  /**
   * Waits until the open request has expired and buffered messages are released. If a receiver starts to
   * wait in the meantime, the messages stay buffered for it.
   */
  async stop(): Promise<void> {
    const { clock } = this.#queue;
    this.#cancelPause?.();
    const ended = this.#poll?.ended.promise;
    if (ended !== undefined) await settlesWithin(ended, MAX_POLL_MS + LATE_RESPONSE_MS, clock);
    await settlesWithin(this.#releaseUnclaimed(), RELEASE_TIMEOUT_MS, clock);
  }

  /** Releases buffered messages and ends the subscription. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.stop();
    const subscription = this.#clearPoll();
    if (!this.#queue.client.isClosed()) subscription?.unsubscribe();
  }

  /** Releases buffered messages while no receiver waits. Resolves when all releases are done. */
  #releaseUnclaimed(): Promise<unknown> {
    if (this.#buffered.length > 0 && !this.#hasListeners) {
      const left = this.#buffered.splice(0).map(({ message }) => message);
      this.#releasing = Promise.all([this.#releasing, this.#release(left)]);
    }
    return this.#releasing;
  }

  get #hasListeners(): boolean {
    return !this.#closed && this.#queue.listeners.size > 0;
  }

  #clearPoll(): NatsSubscription | undefined {
    const poll = this.#poll;
    this.#poll = undefined;
    poll?.cancel();
    poll?.ended.resolve();
    return poll?.subscription;
  }

  #onMessage(poll: PendingPoll, message: NatsMessage): void {
    const { clock } = this.#queue;
    const wake = () => this.#queue.wake();
    const { code = 0 } = message.headers ?? {};
    const superseded = poll !== this.#poll;
    if (!superseded) this.#clearPoll();
    if (code === 0) {
      if (clock.monotonic() - poll.startedAt > REDELIVERY_SAFE_MS) return wake();
      this.#buffered.push({ message, deliveredAt: poll.startedAt });
      return this.#hasListeners ? wake() : void this.#releaseUnclaimed();
    }
    if (superseded || !this.#hasListeners) return;
    if (code === REQUEST_TIMEOUT) this.start();
    else this.#cancelPause = clock.schedule(ERROR_PAUSE_MS, wake);
  }
}
