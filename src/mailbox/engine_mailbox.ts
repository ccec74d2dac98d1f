import { type Clock, systemClock } from "../clock.ts";
import {
  checkDelay,
  checkId,
  checkMailboxName,
  checkMaxMessages,
  checkReplyTo,
  checkTrace,
  checkVisibility,
  checkWait,
} from "./_bounds.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import { sending } from "../telemetry/spans.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { Codec } from "./codec.ts";
import type { Delivery, Engine, Entry, Maybe } from "./engine.ts";
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
import type { LeaseKeepingPlan } from "./lease_keeping.ts";
import { WaitQueue } from "./_wait_queue.ts";

/** Tells how another thread can extend the leases of a queue: the mailbox, or its dead letters. */
export type PlanLeaseKeeping = (queue: string) => Promise<LeaseKeepingPlan | undefined>;

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
  readonly #planLeaseKeeping: PlanLeaseKeeping | undefined;
  readonly #closing = new AbortController();
  /** One random prefix and a counter: as unique as random ids, in a third of the memory. */
  readonly #idPrefix = `${crypto.randomUUID()}-`;
  #lastId = 0;
  #deadLetters: EngineMailbox<DeadLetter<T>, never, B> | undefined;

  /** Starts nothing. With `planLeaseKeeping` another thread can extend the leases. */
  constructor(
    name: string,
    engine: Engine<B>,
    codec: Codec<B>,
    options: MailboxOptions = {},
    planLeaseKeeping?: PlanLeaseKeeping,
  ) {
    this.name = checkMailboxName(name);
    this.#engine = engine;
    this.capabilities = engine.capabilities;
    this.engine = engine.label;
    this.#codec = codec;
    this.#options = options;
    this.#planLeaseKeeping = planLeaseKeeping;
    this.#clock = options.clock ?? systemClock;
    this.#reader = new DeliveryReader(name, engine, codec, options, this.#closing.signal);
    this.#waiting = new WaitQueue(this.#clock, (wake) => engine.onWake(wake));
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
      this.#codec,
      this.#options,
      this.#planLeaseKeeping,
    );
  }

  /** Stores a message and returns its id. When this resolves, the message is safe. */
  async send(body: T, options: SendOptions<R> = {}): Promise<string> {
    const sent = isTracing() ? this.#sendTraced([body], options) : this.#push([body], options);
    return (await sent)[0]!;
  }

  /** Stores all messages, or none of them. */
  async sendMany(bodies: readonly T[], options: SendOptions<R> = {}): Promise<string[]> {
    if (options.id !== undefined) {
      throw new InvalidParameterError("Invalid id: many messages cannot share one id; use send");
    }
    if (bodies.length === 0) return [];
    return await (isTracing() ? this.#sendTraced(bodies, options) : this.#push(bodies, options));
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
    return peeked.map(({ id, body, deliveryCount, enqueuedAt }) => {
      return { id, body: this.#readOrText(body), deliveryCount, enqueuedAt };
    });
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
  async leaseKeeping(): Promise<LeaseKeepingPlan | undefined> {
    return await this.#planLeaseKeeping?.(this.name);
  }

  /** Ends waiting receives and the connection. Stored messages stay. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closing.abort();
    this.#waiting.wakeAll();
    await this.#reader.idle();
    await this.#deadLetters?.close();
    await this.#engine.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  #sendTraced(bodies: readonly T[], options: SendOptions<R>): Promise<string[]> {
    return sending(this.name, options.trace, (trace) => {
      return this.#push(bodies, trace === undefined ? options : { ...options, trace });
    });
  }

  async #push(bodies: readonly T[], options: SendOptions<R>): Promise<string[]> {
    const entries = bodies.map((body) => this.#entry(body, options));
    const stored = await this.#engine.push(entries);
    const ids = entries.map(({ id }) => id);
    for (const [i, id] of ids.entries()) if (!stored[i]) options.onDuplicate?.(id);
    return ids;
  }

  #entry(body: T, options: SendOptions<R>): Entry<B> {
    const { replyTo, delayMs = 0, id, trace, checkpoint } = options;
    this.#checkOpen("send to");
    const encoded = this.#encode(body);
    if (trace !== undefined) checkTrace(trace);
    return {
      id: id === undefined ? `${this.#idPrefix}${++this.#lastId}` : checkId(id),
      body: this.#withTrace(encoded, trace),
      delayMs: checkDelay(delayMs),
      replyTo: checkReplyTo(replyTo),
      dedup: id !== undefined,
      ...(checkpoint === undefined ? {} : { checkpoint: this.#encode(checkpoint) }),
    };
  }

  #encode(value: unknown): B {
    const encoded = this.#codec.encode(value);
    this.#codec.checkSize?.(encoded);
    return encoded;
  }

  /** Adds the trace to the body, unless that exceeds the size limit: the message matters more. */
  #withTrace(encoded: B, trace: TraceContext | undefined): B {
    const codec = this.#codec;
    if (codec.wrap === undefined) return encoded;
    const wrapped = codec.wrap(encoded, trace);
    if (trace === undefined) return wrapped;
    try {
      codec.checkSize?.(wrapped);
      return wrapped;
    } catch {
      return codec.wrap(encoded, undefined); // the body alone fits
    }
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

  #readOrText(body: B): T {
    try {
      const traced = this.#codec.unwrap?.(body);
      return this.#codec.decode(traced === undefined ? body : traced.body) as T;
    } catch {
      return this.#codec.text(body) as T; // unreadable: looking at it must not fail for that
    }
  }

  #checkOpen(what: string): void {
    if (this.#closed) throw new MailboxClosedError(`Cannot ${what} "${this.name}": it is closed`);
  }
}
