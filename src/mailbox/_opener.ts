import type { Clock } from "../clock.ts";
import { errorText } from "../errors.ts";
import type { Log } from "../log.ts";
import { type Codec, openEnvelope } from "./codec.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Maybe, Received, StoredMessage } from "./engine.ts";
import { type Envelope, plainEnvelope, readEnvelope } from "./envelope.ts";
import { EngineMessage, type Storage } from "./_engine_message.ts";
import type { DeadLetterReason, Message, PeekedMessage } from "./message.ts";

/** The result of one call of the engine, as messages. */
export interface Opened<T, R> {
  readonly messages: Message<T, R>[];
  readonly nextDueMs: number;
  /** True when the engine delivered only unreadable or expired messages: more may follow. */
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

  /** Makes messages of deliveries, except of those that cannot be decoded or have expired. */
  open({ deliveries, nextDueMs, now }: Received<B>): Maybe<Opened<T, R>> {
    if (deliveries.length === 0) return { messages: [], nextDueMs };
    const messages: (Message<T, R> | undefined)[] = [];
    let pending: Promise<void>[] | undefined;
    for (const [i, delivery] of deliveries.entries()) {
      const message = this.#openOne(delivery, now);
      if (message instanceof Promise) {
        (pending ??= []).push(message.then((it) => void (messages[i] = it)));
        messages[i] = undefined;
      } else messages[i] = message;
    }
    if (pending === undefined) return { messages: messages as Message<T, R>[], nextDueMs: 0 };
    return Promise.all(pending).then(() => {
      const readable = messages.filter((it) => it !== undefined);
      return { messages: readable, nextDueMs: 0, again: readable.length === 0 };
    });
  }

  /** Returns a promise when the codec does, and of undefined for a message that is not delivered. */
  #openOne(delivery: Delivery<B>, now: number | undefined): Maybe<Message<T, R> | undefined> {
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
  ): Promise<Message<T, R> | undefined> {
    const { codec } = this.#storage;
    const body = await decoding as T;
    if (isExpired) return await this.#expire(delivery, envelope, body);
    const checkpoint = delivery.checkpoint === undefined
      ? undefined
      : await codec.decode(delivery.checkpoint);
    return new EngineMessage(delivery, body, envelope, this.#storage, { checkpoint });
  }

  /** Drops or dead-letters an expired message. */
  async #expire(delivery: Delivery<B>, envelope: Envelope, body: T): Promise<undefined> {
    if (envelope.onExpired !== "drop") {
      const error = `not delivered within ${envelope.expiresInMs} ms (expiresInMs)`;
      return await this.#deadLetter(delivery, { body }, envelope, { reason: "expired", error });
    }
    try {
      await this.#storage.engine.acknowledge([delivery]);
      this.#log.debug("expired message dropped", { mailbox: this.#name, id: delivery.id });
    } catch (error) {
      this.#log.warn("expired message could not be dropped", {
        mailbox: this.#name,
        id: delivery.id,
        error,
      });
    }
  }

  async #deadLetterUnreadable(delivery: Delivery<B>, cause: unknown): Promise<undefined> {
    const raw = this.#storage.codec.text(delivery.body);
    const reason = { reason: "unreadable", error: errorText(cause) };
    await this.#deadLetter(delivery, { raw }, this.#envelopeOf(delivery), reason);
  }

  /** Dead-letters a message that no handler gets. If that fails, its lease expires. */
  async #deadLetter(
    delivery: Delivery<B>,
    content: { readonly body: T } | { readonly raw: string },
    envelope: Envelope,
    reason: DeadLetterReason,
  ): Promise<undefined> {
    const { codec, engine } = this.#storage;
    const fields = { mailbox: this.#name, id: delivery.id, ...reason };
    try {
      const now = this.#clock.now();
      const letter = deadLetterOf(delivery, content, envelope, undefined, reason, now);
      await engine.deadLetter(delivery, await letterEntry(codec, letter, envelope));
      this.#log.warn("message dead-lettered", fields);
    } catch (error) {
      this.#log.error("message could not be dead-lettered", { ...fields, failure: error });
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

/** Returns a stored message as `peek` shows it. */
export async function peekedMessage<T, B>(
  codec: Codec<B>,
  stored: StoredMessage<B>,
): Promise<PeekedMessage<T>> {
  const { id, deliveryCount, enqueuedAt, state } = stored;
  const fields = { id, deliveryCount, enqueuedAt, ...(state && { state }) };
  try {
    const { envelope, body } = openEnvelope(codec, stored);
    const checkpoint = stored.checkpoint === undefined
      ? {}
      : { checkpoint: await codec.decode(stored.checkpoint) };
    const decoded = await codec.decode(body) as T;
    return { ...fields, body: decoded, ...checkpoint, ...plainEnvelope(envelope) };
  } catch {
    // An unreadable message is shown as its stored text.
    return { ...fields, body: codec.text(stored.body) as T, headers: {} };
  }
}
