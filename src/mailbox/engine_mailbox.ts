import { type Clock, systemClock } from "../clock.ts";
import {
  checkDelay,
  checkId,
  checkMailboxName,
  checkMaxMessages,
  checkVisibility,
  checkWait,
} from "./_bounds.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import { sending } from "../telemetry/spans.ts";
import { type Random, systemRandom } from "../random.ts";
import type { Codec } from "./codec.ts";
import { letterCodec } from "./dead_letters.ts";
import type { Delivery, Engine, Entry, Maybe, OffThreadPlan, StoredMessage } from "./engine.ts";
import {
  encodeEnvelope,
  envelopeOf,
  type EnvelopeOptions,
  type MessageHeaders,
  openEnvelope,
} from "./envelope.ts";
import type { EngineMessage } from "./_engine_message.ts";
import { DeliveryReader } from "./_delivery_reader.ts";
import { InvalidParameterError, MailboxClosedError } from "./errors.ts";
import type {
  Capabilities,
  DeadLetter,
  Mailbox,
  MailboxOptions,
  Message,
  PeekedMessage,
  ReceiveOptions,
  SendOptions,
  Settlement,
} from "./mailbox.ts";
import { WaitQueue } from "./_wait_queue.ts";

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
  readonly #clock: Clock;
  readonly #reader: DeliveryReader<T, R, B>;
  readonly #waiting: WaitQueue;
  readonly #ownsEngine: boolean;
  readonly #closing = new AbortController();
  /** One random prefix and a counter: as unique as random ids, in a third of the memory. */
  readonly #idPrefix: string;
  #lastId = 0;
  #deadLetters: EngineMailbox<DeadLetter<T>, never, B> | undefined;

  /** Starts nothing. Dead letters share the engine's connection, which `ownsEngine: false` leaves open. */
  constructor(
    name: string,
    engine: Engine<B>,
    codec: Codec<B>,
    options: MailboxOptions = {},
    { ownsEngine = true }: { readonly ownsEngine?: boolean } = {},
  ) {
    this.name = checkMailboxName(name);
    this.#engine = engine;
    this.capabilities = engine.capabilities;
    this.engine = engine.label;
    this.#codec = codec;
    this.#options = options;
    this.#ownsEngine = ownsEngine;
    const random: Random = options.random ?? systemRandom;
    this.#idPrefix = `${random.id()}-`;
    this.#clock = options.clock ?? systemClock;
    this.#reader = new DeliveryReader(name, engine, codec, options, this.#closing.signal);
    this.#waiting = new WaitQueue(this.#clock, (wake) => engine.onWake(wake));
  }

  /** What the engine cannot do at the moment; undefined while it can do everything. */
  get trouble(): string | undefined {
    return this.#engine.trouble;
  }

  /** True after `close`. */
  get closed(): boolean {
    return this.#closed;
  }

  /** The messages that failed for good, on the same engine. */
  get deadLetters(): Mailbox<DeadLetter<T>> {
    return this.#deadLetters ??= new EngineMailbox(
      `${this.name}.dead`,
      this.#engine.deadLetters(),
      letterCodec(this.#codec),
      this.#options,
      { ownsEngine: false },
    );
  }

  /** Stores a message and returns its id. When this resolves, the message is safe. */
  async send(body: T, options: SendOptions<R> = {}): Promise<string> {
    const sent = isTracing() ? this.#sendTraced([body], options) : this.#send([body], options);
    return (await sent)[0]!;
  }

  /** Stores all messages, or none of them. */
  async sendMany(bodies: readonly T[], options: SendOptions<R> = {}): Promise<string[]> {
    if (options.id !== undefined) {
      throw new InvalidParameterError("Invalid id: many messages cannot share one id; use send");
    }
    if (bodies.length === 0) return [];
    return await (isTracing() ? this.#sendTraced(bodies, options) : this.#send(bodies, options));
  }

  /** Receives messages. Resolves when one is available, or with `[]` when the wait is over. */
  async receive(options: ReceiveOptions = {}): Promise<Message<T, R>[]> {
    const max = checkMaxMessages(options.maxMessages ?? 1);
    const visibilityMs = checkVisibility(options.visibilityTimeoutMs ?? 300_000);
    const waitMs = checkWait(options.waitTimeMs ?? 0);
    const { signal } = options;

    const taken = this.#reader.receive(max, visibilityMs, signal);
    const first = taken instanceof Promise ? await taken : taken;
    if (first.messages.length > 0 || waitMs === 0) return first.messages;
    return await this.#waitFor(max, visibilityMs, waitMs, signal);
  }

  async #waitFor(
    max: number,
    visibilityMs: number,
    waitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Message<T, R>[]> {
    const endsAt = this.#clock.monotonic() + waitMs;
    const over = () => this.#closed || signal?.aborted === true;
    this.#waiting.enter();
    try {
      for (;;) {
        const { wakes } = this.#waiting;
        const { messages, nextDueMs } = await this.#reader.receive(max, visibilityMs, signal);
        const leftMs = endsAt - this.#clock.monotonic();
        if (messages.length > 0 || leftMs <= 0 || over()) return messages;
        if (wakes === this.#waiting.wakes) {
          await this.#waiting.wait(Math.min(leftMs, nextDueMs), signal);
        }
      }
    } finally {
      const leaving = this.#waiting.leave();
      if (leaving instanceof Promise && over()) await leaving; // the process may end a moment later
    }
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
    const peeked = await this.#engine.peek(checkMaxMessages(maxMessages));
    return peeked.map((stored) => this.#peeked(stored));
  }

  /** Acknowledges in one engine call. Returns for each whether its receipt handle was valid. */
  acknowledgeMany(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    const acknowledge = (deliveries: readonly Delivery<B>[]) =>
      this.#engine.acknowledge(deliveries);
    return this.#settleMany(messages, "acknowledged", acknowledge);
  }

  /** Releases in one engine call. Returns for each whether its receipt handle was valid. */
  releaseMany(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    const release = (deliveries: readonly Delivery<B>[]) => this.#engine.release(deliveries);
    return this.#settleMany(messages, "released", release);
  }

  /** Extends in one engine call. Returns for each whether its receipt handle was valid. */
  async extendMany(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]> {
    const deliveries = messages.map((message) => (message as EngineMessage<T, R, B>).delivery);
    return await this.#engine.extend(deliveries, checkVisibility(visibilityTimeoutMs));
  }

  /** Tells how another thread can extend leases; undefined where the engine has no way. */
  async offThread(): Promise<OffThreadPlan | undefined> {
    return await this.#engine.offThread?.();
  }

  /** Ends waiting receives and the connection. Stored messages stay. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closing.abort();
    this.#waiting.wakeAll();
    await this.#reader.idle();
    await this.#deadLetters?.close();
    if (this.#ownsEngine) await this.#engine.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
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
      delayMs: checkDelay(delayMs),
      dedup: id !== undefined,
      ...(checkpoint === undefined ? {} : { checkpoint: this.#encodeCheckpoint(checkpoint) }),
    };
  }

  /** Encodes the envelope. Omits the trace if it exceeds the size limit: the message matters more. */
  #meta(body: B, options: SendOptions<R>, trace: MessageHeaders | undefined): B | undefined {
    const encode = (headers: MessageHeaders | undefined) => {
      const meta = encodeEnvelope(
        this.#codec,
        envelopeOf({ ...options, headers } as EnvelopeOptions<never>),
        body,
      );
      this.#codec.checkSize?.(body, meta);
      return meta;
    };
    if (trace === undefined) return encode(options.headers);
    const own = encode(options.headers);
    try {
      return encode({ ...options.headers, ...trace });
    } catch {
      return own;
    }
  }

  #encodeCheckpoint(checkpoint: unknown): B {
    const encoded = this.#codec.encode(checkpoint);
    this.#codec.checkSize?.(encoded);
    return encoded;
  }

  async #settleMany(
    messages: readonly Message<T, R>[],
    settlement: Settlement,
    settle: (deliveries: readonly Delivery<B>[]) => Maybe<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    const own = messages as readonly EngineMessage<T, R, B>[];
    // A message that was settled before, or is listed twice, must not block the others.
    const claimed = own.map((message) => message.claim());
    const open = own.filter((_, i) => claimed[i]);
    let results: readonly boolean[] = [];
    try {
      const settled = open.length === 0 ? [] : settle(open.map(({ delivery }) => delivery));
      results = settled instanceof Promise ? await settled : settled;
    } finally {
      for (const [i, message] of open.entries()) {
        message.conclude(results[i] ? settlement : undefined);
      }
    }
    let next = 0;
    return claimed.map((mine) => mine && results[next++] === true);
  }

  #peeked(stored: StoredMessage<B>): PeekedMessage<T> {
    const { id, deliveryCount, enqueuedAt } = stored;
    try {
      const { envelope, body } = openEnvelope(this.#codec, stored);
      const decoded = this.#codec.decode(body) as T;
      return { id, body: decoded, deliveryCount, enqueuedAt, headers: envelope.headers };
    } catch {
      // An unreadable message is shown as its stored text.
      const text = this.#codec.text(stored.body) as T;
      return { id, body: text, deliveryCount, enqueuedAt, headers: {} };
    }
  }

  #checkOpen(what: string): void {
    if (this.#closed) throw new MailboxClosedError(`Cannot ${what} "${this.name}": it is closed`);
  }
}
