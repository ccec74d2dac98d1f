import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Codec, withBodyCodec } from "./codec.ts";
import { letterCodec } from "./dead_letters.ts";
import type { Engine, Maybe, OffThreadPlan } from "./engine.ts";
import { checkId, checkMailboxName } from "./envelope.ts";
import { EngineMessage, type Storage, transactionOf } from "./_engine_message.ts";
import { InvalidParameterError, MailboxClosedError } from "./errors.ts";
import {
  type Capabilities,
  type DeadLetter,
  type Mailbox,
  type MailboxOptions,
  type MailboxStats,
  MAX_BATCH,
  MAX_DELAY_MS,
  type Message,
  type PauseOptions,
  type PeekedMessage,
  type PeekOptions,
  type QueueStats,
  type RateLimit,
  type ReceiveOptions,
  type ReleaseOptions,
  type RequestOptions,
  type SendManyOptions,
  type SendOptions,
  type SendResult,
  type TransactionMailbox,
} from "./mailbox.ts";
import { peekedMessage } from "./_opener.ts";
import { checkRateLimit } from "./queue_control.ts";
import { Receiver } from "./_receiver.ts";
import { Requests } from "./_requests.ts";
import { NO_OPTIONS, optionsOfEach, requireCapability, Sender } from "./_sender.ts";

/**
 * The mailbox on top of an engine. It checks arguments, waits for messages, settles each delivery once,
 * sends replies and keeps dead letters. The engine stores.
 */
export class EngineMailbox<T, R, B> implements Mailbox<T, R> {
  /** The name in logs, loops and reply addresses. */
  readonly name: string;
  /** The engine's name, such as `Redis`. */
  readonly engine: string | undefined;
  readonly #engine: Engine<B>;
  readonly #codec: Codec<B>;
  readonly #options: MailboxOptions;
  readonly #sender: Sender<T, R, B>;
  readonly #receiver: Receiver<T, R, B>;
  /** False for dead letters and other queues, which share the connection of their mailbox. */
  #ownsEngine = true;
  #deadLetters: EngineMailbox<DeadLetter<T>, never, B> | undefined;
  #requests: Requests<T, R> | undefined;

  /**
   * Creates a mailbox and starts nothing.
   *
   * @throws {TypeError} when the name or the codec is invalid.
   */
  constructor(name: string, engine: Engine<B>, codec: Codec<B>, options: MailboxOptions = {}) {
    const { codec: bodies, ...others } = options;
    this.name = checkMailboxName(name);
    this.#engine = engine;
    this.engine = engine.label;
    this.#codec = bodies === undefined ? codec : withBodyCodec(codec, bodies);
    this.#options = others;
    const storage: Storage<B> = {
      engine,
      codec: this.#codec,
      options: others,
      replies: (name) => Requests.isReplyName(this.name, name) ? this.queue(name) : undefined,
    };
    this.#sender = new Sender(name, storage);
    this.#receiver = new Receiver(name, storage);
  }

  /** What the engine can do. */
  get capabilities(): Capabilities {
    return this.#engine.capabilities;
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
    return this.#deadLetters ??= this.#sharing<DeadLetter<T>>(
      `${this.name}.dead`,
      this.#engine.deadLetters(),
      letterCodec(this.#codec),
    );
  }

  /** Stores a message. When this resolves, the message is safe. */
  async send(body: T, options: SendOptions<R> = NO_OPTIONS): Promise<SendResult> {
    this.#checkOpen("send to");
    const sent = this.#sender.send([body], () => options);
    return (sent instanceof Promise ? await sent : sent)[0]!;
  }

  /** Stores all messages, or throws and stores none of them. */
  async sendMany(
    bodies: readonly T[],
    options: SendManyOptions<T, R> = NO_OPTIONS,
  ): Promise<SendResult[]> {
    this.#checkOpen("send to");
    return await this.#sender.send(bodies, optionsOfEach(options));
  }

  /** Sends a message and waits for the reply of its handler. */
  async request(body: T, options: RequestOptions = {}): Promise<R> {
    this.#checkOpen("send a request to", "requests", "request");
    this.#requests ??= new Requests<T, R>(this, this.#engine, this.#options, (name) => {
      return this.queue<R>(name);
    });
    return await this.#requests.request(body, options);
  }

  /** Receives messages. Resolves when one is available, or with `[]` when the wait is over. */
  receive(options: ReceiveOptions = {}): Promise<Message<T, R>[]> {
    return this.#receiver.receive(options);
  }

  /** Returns the sends that run in a transaction of the caller. */
  withTransaction(transaction: unknown): TransactionMailbox<T, R> {
    this.#checkOpen("send to");
    return this.#sender.within(transactionOf(this.#engine, transaction));
  }

  /** Returns the number of messages, including those in flight and delayed. */
  async approximateCount(): Promise<number> {
    this.#checkOpen("count");
    return await this.#engine.count();
  }

  /** Counts the messages by state. */
  async stats(): Promise<MailboxStats> {
    this.#checkOpen("count");
    const [stats, dead] = await Promise.all([
      this.#engine.stats(),
      this.#ownsEngine ? this.deadLetters.approximateCount() : undefined,
    ]);
    return { ...stats, ...(dead === undefined ? {} : { dead }) };
  }

  /** Returns the queues in the same database or on the same server, with their counts. */
  async queues(): Promise<readonly QueueStats[]> {
    this.#checkOpen("list the queues of");
    const { queue, queues } = this.#engine;
    if (queue === undefined || queues === undefined) {
      throw new InvalidParameterError(`The engine of "${this.name}" cannot list its queues`);
    }
    const found: QueueStats[] = [];
    for (const name of await queues.call(this.#engine)) {
      const engine = queue.call(this.#engine, name);
      const dead = await engine.deadLetters().count();
      found.push({ name, ...await engine.stats(), dead });
    }
    return found;
  }

  /** Returns another queue on the same connection, with the codec of this mailbox. */
  queue<U>(name: string): EngineMailbox<U, never, B> {
    const engine = this.#engine.queue?.(checkMailboxName(name));
    if (engine === undefined) {
      throw new InvalidParameterError(`The engine of "${this.name}" cannot open queue "${name}"`);
    }
    return this.#sharing<U>(name, engine, this.#codec);
  }

  /** Returns the message with this id, without receiving it; undefined when the mailbox has none. */
  async get(id: string): Promise<PeekedMessage<T> | undefined> {
    this.#checkOpen("read", "lookup", "get");
    const stored = await this.#engine.find!(checkId(id));
    return stored && await peekedMessage<T, B>(this.#codec, stored);
  }

  /** Deletes the message with this id, and cancels its handler. Returns false when there is none. */
  async cancel(id: string): Promise<boolean> {
    this.#checkOpen("cancel a message of", "lookup", "cancel");
    return await this.#engine.cancel!(checkId(id));
  }

  /** Delivers a delayed message now. Returns false when there is no delayed message with this id. */
  async deliverNow(id: string): Promise<boolean> {
    this.#checkOpen("deliver a message of", "lookup", "deliverNow");
    return await this.#engine.deliverNow!(checkId(id));
  }

  /** Calls `listener` with the id of each message that was cancelled while in flight, in any process. */
  onCancel(listener: (id: string) => void): () => Maybe<void> {
    return this.#engine.onCancel?.(listener) ?? (() => {});
  }

  /** Stops the deliveries to all processes, until `resume` or for `forMs`. */
  async pause({ forMs = Infinity }: PauseOptions = {}): Promise<void> {
    this.#checkOpen("pause", "pause", "pause");
    if (forMs !== Infinity) checkDuration("forMs", forMs, MAX_DELAY_MS);
    if (forMs > 0) await this.#engine.pause!(forMs);
  }

  /** Continues the deliveries to all processes. */
  async resume(): Promise<void> {
    this.#checkOpen("resume", "pause", "resume");
    await this.#engine.pause!(0);
  }

  /** Limits the deliveries to all processes together, or ends the limit. */
  async rateLimit(limit: RateLimit | false): Promise<void> {
    this.#checkOpen("limit", "rateLimit", "rateLimit");
    await this.#engine.rateLimit!(limit === false ? undefined : checkRateLimit(limit));
  }

  /** Deletes every message and returns their number. */
  async purge(): Promise<number> {
    this.#checkOpen("purge");
    return await this.#engine.purge();
  }

  /** Returns the oldest messages after the first `skip`, without receiving them. */
  async peek(
    maxMessages: number,
    { skip = 0 }: PeekOptions = {},
  ): Promise<readonly PeekedMessage<T>[]> {
    this.#checkOpen("peek");
    const max = checkCount("maxMessages", maxMessages, 1, MAX_BATCH);
    const peeked = await this.#engine.peek(max, checkCount("skip", skip, 0, 1e9));
    return await Promise.all(peeked.map((stored) => peekedMessage<T, B>(this.#codec, stored)));
  }

  /** Acknowledges in one engine call. Returns for each whether its receipt handle was valid. */
  acknowledgeMany(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    return EngineMessage.settleMany<T, R, B>(messages, "acknowledged", (deliveries) => {
      return this.#engine.acknowledge(deliveries);
    });
  }

  /** Releases in one engine call. Returns for each whether its receipt handle was valid. */
  releaseMany(
    messages: readonly Message<T, R>[],
    { unstarted = false }: ReleaseOptions = {},
  ): Promise<readonly boolean[]> {
    const engine = this.#engine;
    const withoutAttempt = unstarted && engine.capabilities.restoresAttempts;
    return EngineMessage.settleMany<T, R, B>(messages, "released", (deliveries) => {
      return withoutAttempt ? engine.nack(deliveries, 0, false) : engine.release(deliveries);
    });
  }

  /** Extends in one engine call. Returns for each whether its receipt handle was valid. */
  async extendMany(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]> {
    checkDuration("visibilityTimeoutMs", visibilityTimeoutMs, MAX_VISIBILITY_MS);
    const all = messages as readonly EngineMessage<T, R, B>[];
    const deliveries = all.map(({ delivery }) => delivery);
    const extended = await this.#engine.extend(deliveries, visibilityTimeoutMs);
    return all.map(({ inTransaction }, i) => inTransaction || extended[i] === true);
  }

  /** Tells how another thread can extend leases; undefined where the engine has no way. */
  offThread(): OffThreadPlan | undefined {
    return this.#engine.offThread?.();
  }

  /** Ends waiting receives, requests and the connection. Stored messages stay. */
  async close(): Promise<void> {
    if (this.closed) return;
    await this.#requests?.close();
    await this.#receiver.close();
    await this.#deadLetters?.close();
    if (this.#ownsEngine) await this.#engine.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Returns a mailbox on another queue that shares the connection of this one. */
  #sharing<U>(name: string, engine: Engine<B>, codec: Codec<B>): EngineMailbox<U, never, B> {
    const mailbox = new EngineMailbox<U, never, B>(name, engine, codec, this.#options);
    mailbox.#ownsEngine = false;
    return mailbox;
  }

  /** Throws when the mailbox is closed, or when its engine cannot do what a call needs. */
  #checkOpen(what: string, capability?: keyof Capabilities, call = ""): void {
    if (this.closed) throw new MailboxClosedError(`Cannot ${what} "${this.name}": it is closed`);
    if (capability !== undefined) requireCapability(this.#engine, this.name, capability, call);
  }
}
