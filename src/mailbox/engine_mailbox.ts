import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Random, systemRandom } from "../random.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import { sending } from "../telemetry/spans.ts";
import { type Codec, encodeEnvelope, openEnvelope } from "./codec.ts";
import { letterCodec } from "./dead_letters.ts";
import type { Engine, Entry, OffThreadPlan, StoredMessage } from "./engine.ts";
import {
  checkId,
  checkMailboxName,
  envelopeOf,
  type EnvelopeOptions,
  type MessageHeaders,
  plainEnvelope,
} from "./envelope.ts";
import { EngineMessage } from "./_engine_message.ts";
import { MailboxClosedError } from "./errors.ts";
import {
  type Capabilities,
  type DeadLetter,
  type Mailbox,
  type MailboxOptions,
  MAX_BATCH,
  type Message,
  type PeekedMessage,
  type ReceiveOptions,
  type SendOptions,
} from "./mailbox.ts";
import { Receiver } from "./_receiver.ts";

/**
 * The mailbox on top of an engine. It checks arguments, waits for messages, settles each delivery once,
 * sends replies and keeps dead letters. The engine stores.
 */
export class EngineMailbox<T, R, B> implements Mailbox<T, R> {
  /** The name in logs, loops and reply addresses. */
  readonly name: string;
  /** What the engine can do. */
  readonly capabilities: Capabilities;
  /** The engine's name, such as `Redis`. */
  readonly engine: string | undefined;
  readonly #engine: Engine<B>;
  readonly #codec: Codec<B>;
  readonly #options: MailboxOptions;
  readonly #receiver: Receiver<T, R, B>;
  /** False for dead letters, which share the connection of their mailbox. */
  #ownsEngine = true;
  /** One random prefix and a counter: as unique as random ids, in a third of the memory. */
  readonly #idPrefix: string;
  #lastId = 0;
  #deadLetters: EngineMailbox<DeadLetter<T>, never, B> | undefined;

  /**
   * Creates a mailbox and starts nothing.
   *
   * @throws {TypeError} when the name is invalid.
   */
  constructor(name: string, engine: Engine<B>, codec: Codec<B>, options: MailboxOptions = {}) {
    this.name = checkMailboxName(name);
    this.#engine = engine;
    this.capabilities = engine.capabilities;
    this.engine = engine.label;
    this.#codec = codec;
    this.#options = options;
    const random: Random = options.random ?? systemRandom;
    this.#idPrefix = `${random.id()}-`;
    this.#receiver = new Receiver(name, { engine, codec, options });
  }

  /** What the engine cannot do at the moment; undefined while it can do everything. */
  get trouble(): string | undefined {
    return this.#engine.trouble;
  }

  /** True after `close`. */
  get closed(): boolean {
    return this.#receiver.closed;
  }

  /** The messages that failed for good, on the same engine. */
  get deadLetters(): Mailbox<DeadLetter<T>> {
    return this.#deadLetters ??= this.#createDeadLetters();
  }

  /** Stores a message and returns its id. When this resolves, the message is safe. */
  async send(body: T, options: SendOptions<R> = {}): Promise<string> {
    const sent = isTracing() ? this.#sendTraced([body], options) : this.#send([body], options);
    return (await sent)[0]!;
  }

  /** Stores all messages, or none of them. */
  async sendMany(bodies: readonly T[], options: SendOptions<R> = {}): Promise<string[]> {
    if (options.id !== undefined) {
      throw new TypeError("Invalid id: many messages cannot share one id; use send");
    }
    if (bodies.length === 0) return [];
    return await (isTracing() ? this.#sendTraced(bodies, options) : this.#send(bodies, options));
  }

  /** Receives messages. Resolves when one is available, or with `[]` when the wait is over. */
  receive(options: ReceiveOptions = {}): Promise<Message<T, R>[]> {
    return this.#receiver.receive(options);
  }

  /** Returns the number of messages, including those in flight and delayed. */
  async approximateCount(): Promise<number> {
    this.#checkOpen("count");
    return await this.#engine.count();
  }

  /** Deletes every message and returns their number. */
  async purge(): Promise<number> {
    this.#checkOpen("purge");
    return await this.#engine.purge();
  }

  /** Returns the oldest messages without receiving them. */
  async peek(maxMessages: number): Promise<readonly PeekedMessage<T>[]> {
    this.#checkOpen("peek");
    const peeked = await this.#engine.peek(
      checkCount("maxMessages", maxMessages, 1, MAX_BATCH),
    );
    return peeked.map((stored) => this.#peeked(stored));
  }

  /** Acknowledges in one engine call. Returns for each whether its receipt handle was valid. */
  acknowledgeMany(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    return EngineMessage.settleMany(own<T, R, B>(messages), "acknowledged", (deliveries) => {
      return this.#engine.acknowledge(deliveries);
    });
  }

  /** Releases in one engine call. Returns for each whether its receipt handle was valid. */
  releaseMany(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    return EngineMessage.settleMany(own<T, R, B>(messages), "released", (deliveries) => {
      return this.#engine.release(deliveries);
    });
  }

  /** Extends in one engine call. Returns for each whether its receipt handle was valid. */
  async extendMany(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]> {
    checkDuration("visibilityTimeoutMs", visibilityTimeoutMs, MAX_VISIBILITY_MS);
    const deliveries = own<T, R, B>(messages).map(({ delivery }) => delivery);
    return await this.#engine.extend(deliveries, visibilityTimeoutMs);
  }

  /** Tells how another thread can extend leases; undefined where the engine has no way. */
  offThread(): OffThreadPlan | undefined {
    return this.#engine.offThread?.();
  }

  /** Ends waiting receives and the connection. Stored messages stay. */
  async close(): Promise<void> {
    if (this.closed) return;
    await this.#receiver.close();
    await this.#deadLetters?.close();
    if (this.#ownsEngine) await this.#engine.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #createDeadLetters(): EngineMailbox<DeadLetter<T>, never, B> {
    const codec = letterCodec(this.#codec);
    const deadLetters = new EngineMailbox<DeadLetter<T>, never, B>(
      `${this.name}.dead`,
      this.#engine.deadLetters(),
      codec,
      this.#options,
    );
    deadLetters.#ownsEngine = false;
    return deadLetters;
  }

  #sendTraced(bodies: readonly T[], options: SendOptions<R>): Promise<string[]> {
    return sending(this.name, options.headers ?? {}, (trace) => {
      return this.#send(bodies, options, trace as MessageHeaders | undefined);
    });
  }

  async #send(
    bodies: readonly T[],
    options: SendOptions<R>,
    trace?: MessageHeaders,
  ): Promise<string[]> {
    const entries = bodies.map((body) => this.#entry(body, options, trace));
    const stored = await this.#engine.send(entries);
    const ids = entries.map(({ id }) => id);
    for (const [i, id] of ids.entries()) if (!stored[i]) options.onDuplicate?.(id);
    return ids;
  }

  #entry(body: T, options: SendOptions<R>, trace: MessageHeaders | undefined): Entry<B> {
    const { delayMs = 0, id, checkpoint } = options;
    this.#checkOpen("send to");
    const encoded = this.#codec.encode(body);
    return {
      id: id === undefined ? `${this.#idPrefix}${++this.#lastId}` : checkId(id),
      body: encoded,
      meta: this.#meta(encoded, options, trace),
      delayMs: checkDuration("delayMs", delayMs, MAX_VISIBILITY_MS),
      dedup: id !== undefined,
      ...(checkpoint === undefined ? {} : { checkpoint: this.#encodeCheckpoint(checkpoint) }),
    };
  }

  /** Encodes the envelope. Omits the trace if it exceeds the size limit: the message matters more. */
  #meta(body: B, options: SendOptions<R>, trace: MessageHeaders | undefined): B | undefined {
    const own = this.#encodeMeta(body, options);
    if (trace === undefined) return own;
    try {
      return this.#encodeMeta(body, { ...options, headers: { ...options.headers, ...trace } });
    } catch {
      return own;
    }
  }

  #encodeMeta(body: B, options: EnvelopeOptions<R>): B | undefined {
    const envelope = envelopeOf(options as EnvelopeOptions<never>);
    const meta = encodeEnvelope(this.#codec, envelope, body);
    this.#codec.checkSize?.(body, meta);
    return meta;
  }

  #encodeCheckpoint(checkpoint: unknown): B {
    const encoded = this.#codec.encode(checkpoint);
    this.#codec.checkSize?.(encoded);
    return encoded;
  }

  #peeked(stored: StoredMessage<B>): PeekedMessage<T> {
    const { id, deliveryCount, enqueuedAt } = stored;
    try {
      const { envelope, body } = openEnvelope(this.#codec, stored);
      const decoded = this.#codec.decode(body) as T;
      return { id, body: decoded, deliveryCount, enqueuedAt, ...plainEnvelope(envelope) };
    } catch {
      // An unreadable message is shown as its stored text.
      const text = this.#codec.text(stored.body) as T;
      return { id, body: text, deliveryCount, enqueuedAt, headers: {} };
    }
  }

  #checkOpen(what: string): void {
    if (this.closed) throw new MailboxClosedError(`Cannot ${what} "${this.name}": it is closed`);
  }
}

/** The messages of this mailbox are of its own class. */
function own<T, R, B>(messages: readonly Message<T, R>[]): readonly EngineMessage<T, R, B>[] {
  return messages as readonly EngineMessage<T, R, B>[];
}
