import type { Clock } from "../clock.ts";
import { errorText } from "../errors.ts";
import type { Log } from "../log.ts";
import { type Codec, openEnvelope } from "./codec.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Maybe, Received, StoredMessage } from "./engine.ts";
import { type Envelope, plainEnvelope, readEnvelope } from "./envelope.ts";
import { EngineMessage, type Storage } from "./_engine_message.ts";
import type { DeadLetterReason, PeekedMessage } from "./message.ts";
import { readProgress } from "./_progress.ts";

/** The result of one call of the engine, as messages. */
export interface Opened<T, R, B> {
  readonly messages: EngineMessage<T, R, B>[];
  readonly nextDueMs: number;
  /** True when all delivered messages were unreadable or expired, and some were removed: more may follow. */
  readonly again?: boolean;
}

/** Makes messages of deliveries. Dead-letters those that cannot be decoded or have expired. */
export class Opener<T, R, B> {
  readonly #name: string;
  readonly #storage: Storage<B>;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(name: string, storage: Storage<B>, clock: Clock, log: Log) {
    this.#name = name;
    this.#storage = storage;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Turns deliveries into messages, except those that cannot be decoded or have expired. `arrivedAt` is when they
   * arrived, by the monotonic clock, if not now. Their leases run from that time.
   */
  open(
    { deliveries, nextDueMs, now }: Received<B>,
    arrivedAt?: number,
  ): Maybe<Opened<T, R, B>> {
    if (deliveries.length === 0) return { messages: [], nextDueMs };
    const opened = deliveries.map((delivery) => this.#openOne(delivery, now));
    if (arrivedAt === undefined && opened.every(isReady)) return { messages: opened, nextDueMs: 0 };
    const startedAt = arrivedAt ?? this.#clock.monotonic();
    return Promise.all(opened).then((all) => {
      const messages = all.filter((it) => typeof it !== "boolean");
      const openingMs = this.#clock.monotonic() - startedAt;
      for (const message of messages) message.openingMs = openingMs;
      // With a lease of no time, a message that was not removed would be delivered again for ever.
      return { messages, nextDueMs: 0, again: messages.length === 0 && all.includes(true) };
    });
  }

  /** Returns a promise when the codec does, and for a message that is not delivered: whether it was removed. */
  #openOne(
    delivery: Delivery<B>,
    now: number | undefined,
  ): Maybe<EngineMessage<T, R, B> | boolean> {
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
  ): Promise<EngineMessage<T, R, B> | boolean> {
    const { codec } = this.#storage;
    const body = await decoding as T;
    const { checkpoint: stored } = delivery;
    // Waits in any case: the messages of one receive stay in order.
    const checkpoint = await (stored === undefined ? undefined : codec.decode(stored));
    if (isExpired) return await this.#expire(delivery, envelope, body, checkpoint);
    return new EngineMessage(delivery, body, envelope, this.#storage, { checkpoint });
  }

  /** Drops or dead-letters an expired message. Returns whether it did. */
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

function isReady<M>(message: Maybe<M | boolean>): message is M {
  return !(message instanceof Promise);
}

/** Returns a stored message as `peek` shows it. */
export async function peekedMessage<T, B>(
  codec: Codec<B>,
  stored: StoredMessage<B>,
): Promise<PeekedMessage<T>> {
  const { id, deliveryCount, enqueuedAt, state } = stored;
  const fields = { id, deliveryCount, enqueuedAt, ...(state && { state }) };
  try {
    const { envelope, body } = openEnvelope(codec, stored);
    const decoded = await codec.decode(body) as T;
    const message = { ...fields, body: decoded, ...plainEnvelope(envelope) };
    if (stored.checkpoint === undefined) return message;
    const { checkpoint, steps } = readProgress(await codec.decode(stored.checkpoint));
    return {
      ...message,
      ...(checkpoint === undefined ? {} : { checkpoint }),
      ...(steps.length === 0 ? {} : { steps }),
    };
  } catch {
    // An unreadable message is shown as its stored text.
    return { ...fields, body: codec.text(stored.body) as T, headers: {} };
  }
}
