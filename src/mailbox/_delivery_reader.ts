import { errorText } from "../errors.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Codec } from "./codec.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Engine, Maybe, Received } from "./engine.ts";
import { type Envelope, openEnvelope, readEnvelope } from "./envelope.ts";
import { EngineMessage } from "./_engine_message.ts";
import type { MailboxOptions, Message } from "./mailbox.ts";

/** How long an aborted receive waits for the answer of the engine. */
const LATE_MS = 1_000;

/** The result of one receive, as messages. */
export interface Opened<T, R> {
  readonly messages: Message<T, R>[];
  readonly nextDueMs: number;
}

/** Receives deliveries from an engine and makes messages of them. */
export class DeliveryReader<T, R, B> {
  readonly #name: string;
  readonly #engine: Engine<B>;
  readonly #codec: Codec<B>;
  readonly #options: MailboxOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing: AbortSignal;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(
    name: string,
    engine: Engine<B>,
    codec: Codec<B>,
    options: MailboxOptions,
    closing: AbortSignal,
  ) {
    this.#name = name;
    this.#engine = engine;
    this.#codec = codec;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#closing = closing;
  }

  /** Receives without waiting. Releases what arrives after an abort or a close. */
  receive(
    max: number,
    visibilityMs: number,
    signal: AbortSignal | undefined,
  ): Maybe<Opened<T, R>> {
    if (this.#closing.aborted || signal?.aborted) return { messages: [], nextDueMs: Infinity };
    const answer = this.#engine.receive(max, visibilityMs);
    if (!(answer instanceof Promise)) return this.#open(answer);
    const receiving = this.#withinPatience(this.#openOrRelease(answer, signal), signal);
    this.#pending.add(receiving);
    const end = () => void this.#pending.delete(receiving);
    receiving.then(end, end);
    return receiving;
  }

  /** Resolves when no call is pending; after a close, that is soon. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  async #openOrRelease(
    receiving: Promise<Received<B>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R>> {
    const answer = await receiving;
    if (!this.#closing.aborted && !signal?.aborted) return await this.#open(answer);
    try {
      if (answer.deliveries.length > 0) await this.#engine.release(answer.deliveries);
    } catch (error) {
      this.#log.warn(
        `could not release to "${this.#name}"; the messages reappear when their visibility timeout passes`,
        { error },
      );
    }
    return { messages: [], nextDueMs: Infinity };
  }

  /** Gives up on an engine that does not answer after an abort, and releases what it delivers later. */
  async #withinPatience(
    receiving: Promise<Opened<T, R>>,
    signal: AbortSignal | undefined,
  ): Promise<Opened<T, R>> {
    const gaveUp = deferred<Opened<T, R>>();
    let cancel: Cancel | undefined;
    const unlinks = [signal, this.#closing].map((abort) =>
      onAbort(abort, () => {
        cancel ??= this.#clock.schedule(LATE_MS, () => {
          this.#releaseLate(receiving);
          gaveUp.resolve({ messages: [], nextDueMs: Infinity });
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
      this.#log.warn(`a late receive from "${this.#name}" failed`, { error });
    }
  }

  /** Makes messages of deliveries. Dead-letters the ones whose body cannot be decoded. */
  #open({ deliveries, nextDueMs }: Received<B>): Maybe<Opened<T, R>> {
    if (deliveries.length === 0) return { messages: [], nextDueMs };
    const messages: Message<T, R>[] = [];
    const unreadable: Promise<void>[] = [];
    for (const delivery of deliveries) {
      try {
        messages.push(this.#message(delivery));
      } catch (error) {
        unreadable.push(this.#deadLetterUnreadable(delivery, error));
      }
    }
    const received = { messages, nextDueMs: 0 };
    return unreadable.length === 0 ? received : Promise.all(unreadable).then(() => received);
  }

  #message(delivery: Delivery<B>): Message<T, R> {
    const codec = this.#codec;
    const { envelope, body } = openEnvelope(codec, delivery);
    const decoded = codec.decode(body) as T;
    return new EngineMessage(delivery, decoded, this.#engine, codec, this.#options, envelope);
  }

  async #deadLetterUnreadable(delivery: Delivery<B>, error: unknown): Promise<void> {
    const raw = this.#codec.text(delivery.body);
    const reason = { reason: "unreadable", error: errorText(error) };
    try {
      const envelope = this.#envelopeOf(delivery);
      const now = this.#clock.now();
      const letter = deadLetterOf(delivery, { raw }, envelope, undefined, reason, now);
      await this.#engine.deadLetter(delivery, letterEntry(this.#codec, letter, envelope));
      this.#log.warn(`message ${delivery.id} of "${this.#name}" is unreadable: dead-lettered`, {
        error,
      });
    } catch (error) {
      this.#log.error(`message ${delivery.id} of "${this.#name}" could not be dead-lettered`, {
        error,
      });
    }
  }

  #envelopeOf(delivery: Delivery<B>): Envelope {
    try {
      return openEnvelope(this.#codec, delivery).envelope;
    } catch {
      return readEnvelope({}); // the meta is what cannot be decoded
    }
  }
}
