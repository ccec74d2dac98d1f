import { type Deferred, deferred } from "../_promises.ts";
import { systemClock } from "../clock.ts";
import { checkDelay, checkVisibility } from "./_bounds.ts";
import type { Codec } from "./codec.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Engine, Maybe } from "./engine.ts";
import { type Envelope, type MessageHeaders, type ReplyMailbox, replyName } from "./envelope.ts";
import {
  MessageFinalizedError,
  ReceiptHandleExpiredError,
  ReplyNotAvailableError,
} from "./errors.ts";
import type {
  DeadLetterReason,
  MailboxOptions,
  Message,
  NackOptions,
  Settlement,
} from "./mailbox.ts";

/**
 * One delivery of a message. It is settled once: `open ─▶ settling ─▶ settled`, and `open` again when the
 * settling call failed.
 */
export class EngineMessage<T, R, B> implements Message<T, R> {
  readonly delivery: Delivery<B>;
  readonly body: T;
  readonly #envelope: Envelope;
  /** Set while a lease extender extends it. */
  leased = false;
  readonly #engine: Engine<B>;
  readonly #codec: Codec<B>;
  readonly #options: MailboxOptions;
  /** The checkpoint that this delivery saved; `delivery` has the one before. */
  #checkpoint: B | undefined;
  #state: "open" | "settling" | Settlement = "open";
  #settled: Deferred<void> | undefined;

  constructor(
    delivery: Delivery<B>,
    body: T,
    engine: Engine<B>,
    codec: Codec<B>,
    options: MailboxOptions,
    envelope: Envelope,
  ) {
    this.delivery = delivery;
    this.body = body;
    this.#envelope = envelope;
    this.#engine = engine;
    this.#codec = codec;
    this.#options = options;
  }

  get id(): string {
    return this.delivery.id;
  }

  get receiptHandle(): string {
    return this.delivery.receiptHandle;
  }

  get deliveryCount(): number {
    return this.delivery.deliveryCount;
  }

  get enqueuedAt(): number {
    return this.delivery.enqueuedAt;
  }

  get replyTo(): string | undefined {
    const { replyTo } = this.#envelope;
    return replyTo === undefined ? undefined : replyName(replyTo);
  }

  get headers(): MessageHeaders {
    return this.#envelope.headers;
  }

  get checkpoint(): unknown {
    const checkpoint = this.#checkpoint ?? this.delivery.checkpoint;
    return checkpoint === undefined ? undefined : this.#codec.decode(checkpoint);
  }

  get finalized(): boolean {
    return this.settlement !== undefined;
  }

  get settlement(): Settlement | undefined {
    return this.#state === "open" || this.#state === "settling" ? undefined : this.#state;
  }

  get settling(): Promise<void> | undefined {
    return this.#state === "settling" ? (this.#settled ??= deferred()).promise : undefined;
  }

  async acknowledge(): Promise<void> {
    const acknowledge = () => this.#engine.acknowledge([this.delivery]);
    await this.#settle("acknowledge", "acknowledged", acknowledge);
  }

  async nack({ delayMs = 0, countsAttempt = true }: NackOptions = {}): Promise<void> {
    const delay = checkDelay(delayMs);
    const nack = () => this.#engine.nack([this.delivery], delay, countsAttempt);
    await this.#settle("nack", "nacked", nack);
  }

  async release(): Promise<void> {
    await this.#settle("release", "released", () => this.#engine.release([this.delivery]));
  }

  async deadLetter(reason: DeadLetterReason): Promise<void> {
    const { body, delivery } = this;
    const envelope = this.#envelope;
    const checkpoint = this.#readableCheckpoint();
    const now = (this.#options.clock ?? systemClock).now();
    const letter = deadLetterOf(delivery, { body }, envelope, checkpoint, reason, now);
    const entry = letterEntry(this.#codec, letter, envelope);
    const deadLetter = async () => [await this.#engine.deadLetter(delivery, entry)];
    await this.#settle("dead-letter", "deadLettered", deadLetter);
  }

  async extendVisibility(ms: number): Promise<void> {
    const visibilityMs = checkVisibility(ms);
    this.checkSettleable();
    const [extended] = await this.#engine.extend([this.delivery], visibilityMs);
    if (!extended) throw this.#expired("extend");
  }

  async saveCheckpoint(checkpoint: unknown): Promise<void> {
    const encoded = this.#codec.encode(checkpoint);
    this.#codec.checkSize?.(encoded);
    this.checkSettleable();
    if (!await this.#engine.checkpoint(this.delivery, encoded)) {
      throw this.#expired("save a checkpoint of");
    }
    this.#checkpoint = encoded;
  }

  async reply(body: R): Promise<string> {
    this.checkSettleable();
    const mailbox = await this.#replyMailbox();
    return await mailbox.send(body);
  }

  /** Begins to settle. Returns false when another call did. */
  claim(): boolean {
    if (this.#state !== "open") return false;
    this.#state = "settling";
    return true;
  }

  /** Ends what `claim` began; pass undefined when the settling call failed. */
  conclude(settlement: Settlement | undefined): void {
    this.#state = settlement ?? "open";
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  /** Throws when the delivery was settled. */
  checkSettleable(): void {
    if (this.#state === "open") return;
    throw new MessageFinalizedError(`Message ${this.id} was settled already`);
  }

  /** A checkpoint that cannot be decoded must not prevent dead-lettering. */
  #readableCheckpoint(): unknown {
    try {
      return this.checkpoint;
    } catch {
      const checkpoint = this.#checkpoint ?? this.delivery.checkpoint;
      return checkpoint === undefined ? undefined : this.#codec.text(checkpoint);
    }
  }

  async #replyMailbox(): Promise<ReplyMailbox<R>> {
    const { replyTo } = this.#envelope;
    if (replyTo === undefined) {
      throw new ReplyNotAvailableError(`Message ${this.id} has no reply address`);
    }
    if (typeof replyTo === "object") return replyTo;
    const found = await this.#options.resolver?.(replyTo);
    if (found === undefined) {
      throw new ReplyNotAvailableError(
        `Cannot reply to message ${this.id}: its reply mailbox "${replyTo}" is unknown here. Pass a ` +
          "`resolver` that returns it",
      );
    }
    return found;
  }

  async #settle(
    what: string,
    settlement: Settlement,
    act: () => Maybe<readonly boolean[]>,
  ): Promise<void> {
    this.checkSettleable();
    this.claim();
    let done: boolean | undefined = false;
    try {
      [done] = await act();
    } finally {
      this.conclude(done ? settlement : undefined);
    }
    if (!done) throw this.#expired(what);
  }

  #expired(what: string): ReceiptHandleExpiredError {
    return new ReceiptHandleExpiredError(
      `Cannot ${what} message ${this.id} by delivery ${this.deliveryCount}: its visibility timeout ` +
        "has passed, or it was settled elsewhere",
    );
  }
}
