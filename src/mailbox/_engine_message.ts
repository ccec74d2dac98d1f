import { checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Deferred, deferred } from "../_promises.ts";
import { systemClock } from "../clock.ts";
import type { Codec } from "./codec.ts";
import { DeliveredMessage } from "./_delivered_message.ts";
import { deadLetterOf, letterEntry } from "./dead_letters.ts";
import type { Delivery, Engine, EngineTransaction, Maybe } from "./engine.ts";
import { checkOpen, type Envelope, type ReplyMailbox } from "./envelope.ts";
import {
  InvalidParameterError,
  MessageFinalizedError,
  ReceiptHandleExpiredError,
  ReplyNotAvailableError,
} from "./errors.ts";
import {
  type DeadLetterReason,
  type MailboxOptions,
  MAX_DELAY_MS,
  type Message,
  type NackOptions,
  type Settlement,
  type TransactionMessage,
} from "./mailbox.ts";
import { type Progress, SavedProgress, type StepRecord } from "./_progress.ts";
import { type ReplySender, requestReply } from "./_requests.ts";

/** What all messages of a mailbox share. */
export interface Storage<B> {
  readonly engine: Engine<B>;
  readonly codec: Codec<B>;
  readonly options: MailboxOptions;
  /** Returns the mailbox for replies to a `request`; undefined for a name that no request has. */
  readonly replies: (name: string) => ReplySender | undefined;
}

/**
 * One delivery of a message. It is settled once: `open ─▶ settling ─▶ settled`, and `open` again when the
 * settling call failed.
 */
export class EngineMessage<T, R, B> extends DeliveredMessage<T, B> implements Message<T, R> {
  /** Set while a lease extender extends it. */
  leased = false;
  /** How long it had been leased when its receive returned, in milliseconds. Opening other messages may take long. */
  openingMs = 0;
  readonly #storage: Storage<B>;
  /** Created on first use: most handlers save no progress. */
  #progress: SavedProgress<B> | undefined;
  /** A transaction of the caller acknowledged the message. It may have been rolled back since. */
  #inTransaction = false;
  #state: "open" | "settling" | Settlement = "open";
  #settled: Deferred<void> | undefined;

  constructor(
    delivery: Delivery<B>,
    body: T,
    envelope: Envelope,
    storage: Storage<B>,
    decoded?: { readonly checkpoint: unknown },
  ) {
    super(delivery, body, envelope);
    this.#storage = storage;
    if (decoded !== undefined) this.#progress = new SavedProgress(delivery, storage, decoded);
  }

  /**
   * Settles messages of one mailbox, which are all of this class, in one call of its engine. Returns for each message
   * whether its receipt handle was valid. A message that was settled before or is listed twice returns false and does
   * not block the others. A message that a transaction acknowledged needs no call.
   */
  static async settleMany<T, R, B>(
    received: readonly Message<T, R>[],
    settlement: Settlement,
    call: (deliveries: readonly Delivery<B>[]) => Maybe<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    const messages = received as readonly EngineMessage<T, R, B>[];
    const open: EngineMessage<T, R, B>[] = [];
    const known = messages.map((message) => {
      if (!message.#claim()) return false;
      if (message.#inTransaction && settlement === "acknowledged") {
        message.#conclude(settlement);
        return true;
      }
      open.push(message);
      return undefined; // the engine decides
    });
    let results: readonly boolean[] = [];
    try {
      const settled = open.length === 0 ? [] : call(open.map(({ delivery }) => delivery));
      results = settled instanceof Promise ? await settled : settled;
    } finally {
      for (let i = 0; i < open.length; i++) open[i]!.#conclude(results[i] ? settlement : undefined);
    }
    let next = 0;
    return known.map((it) => it ?? results[next++] === true);
  }

  /** True after a transaction of the caller acknowledged the message. */
  get inTransaction(): boolean {
    return this.#inTransaction;
  }

  get checkpoint(): unknown {
    return this.#saved.read().checkpoint;
  }

  get steps(): readonly StepRecord[] {
    return this.#saved.read().steps;
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
    const acknowledge = () => this.#storage.engine.acknowledge([this.delivery]);
    await this.#settle("acknowledge", "acknowledged", acknowledge);
  }

  async nack({ delayMs = 0, countsAttempt = true }: NackOptions = {}): Promise<void> {
    const { longDelays } = this.#storage.engine.capabilities;
    checkDuration("delayMs", delayMs, longDelays ? MAX_DELAY_MS : MAX_VISIBILITY_MS);
    const nack = () => this.#storage.engine.nack([this.delivery], delayMs, countsAttempt);
    await this.#settle("nack", "nacked", nack);
  }

  async release(): Promise<void> {
    await this.#settle("release", "released", () => this.#storage.engine.release([this.delivery]));
  }

  async deadLetter(reason: DeadLetterReason): Promise<void> {
    const { body, delivery } = this;
    const envelope = this.envelope;
    const checkpoint = this.#saved.whole();
    const now = (this.#storage.options.clock ?? systemClock).now();
    const letter = deadLetterOf(delivery, { body }, envelope, checkpoint, reason, now);
    const deadLetter = async () => {
      const entry = await letterEntry(this.#storage.codec, letter, envelope);
      return [await this.#storage.engine.deadLetter(delivery, entry)];
    };
    await this.#settle("dead-letter", "deadLettered", deadLetter);
  }

  async extendVisibility(ms: number): Promise<void> {
    checkDuration("visibilityTimeoutMs", ms, MAX_VISIBILITY_MS);
    this.#checkOpen();
    const [extended] = await this.#storage.engine.extend([this.delivery], ms);
    if (!extended) throw this.#expired("extend");
  }

  async saveCheckpoint(checkpoint: unknown): Promise<void> {
    await this.#save((progress) => ({ ...progress, checkpoint }));
  }

  async saveStep(step: StepRecord): Promise<void> {
    await this.#save((progress) => ({ ...progress, steps: [...progress.steps, step] }));
  }

  async reply(body: R): Promise<void> {
    this.#checkOpen();
    const { replyTo } = this.envelope;
    const requester = typeof replyTo === "string" ? this.#storage.replies(replyTo) : undefined;
    if (requester === undefined) await (await this.#replyMailbox()).send(body);
    else await requestReply(this, body, requester, this.#storage.options.clock ?? systemClock);
  }

  async checkReply(): Promise<void> {
    const { replyTo } = this.envelope;
    if (typeof replyTo === "string" && this.#storage.replies(replyTo) !== undefined) return;
    checkOpen(await this.#replyMailbox());
  }

  withTransaction(transaction: unknown): TransactionMessage {
    const inside = transactionOf(this.#storage.engine, transaction);
    return {
      // Not an async function: a synchronous transaction function must see what it throws.
      acknowledge: () => {
        this.#checkOpen();
        const conclude = ([done]: readonly boolean[]) => {
          if (!done) throw this.#expired("acknowledge");
          this.#inTransaction = true;
        };
        const acknowledged = inside.acknowledge([this.delivery]);
        if (acknowledged instanceof Promise) return acknowledged.then(conclude);
        return Promise.resolve(conclude(acknowledged));
      },
    };
  }

  /** Begins to settle. Returns false when another call did. */
  #claim(): boolean {
    if (this.#state !== "open") return false;
    this.#state = "settling";
    return true;
  }

  /** Ends what `#claim` began; pass undefined when the settling call failed. */
  #conclude(settlement: Settlement | undefined): void {
    this.#state = settlement ?? "open";
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  /** Throws when the delivery was settled. */
  #checkOpen(): void {
    if (this.#state === "open") return;
    throw new MessageFinalizedError(`Message ${this.id} was settled already`);
  }

  get #saved(): SavedProgress<B> {
    return this.#progress ??= new SavedProgress(this.delivery, this.#storage, undefined);
  }

  async #save(change: (progress: Progress) => Progress): Promise<void> {
    if (await this.#saved.save(change, () => this.#checkOpen())) return;
    throw this.#expired("save a checkpoint of");
  }

  async #replyMailbox(): Promise<ReplyMailbox<R>> {
    const { replyTo } = this.envelope;
    if (replyTo === undefined) {
      throw new ReplyNotAvailableError(`Message ${this.id} has no reply address`);
    }
    if (typeof replyTo === "object") return replyTo;
    const found = await this.#storage.options.resolver?.(replyTo);
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
    this.#checkOpen();
    this.#claim();
    let done: boolean | undefined = false;
    try {
      [done] = await act();
    } finally {
      this.#conclude(done ? settlement : undefined);
    }
    if (done) return;
    if (!this.#inTransaction) throw this.#expired(what);
    this.#state = "acknowledged"; // the transaction was committed
  }

  #expired(what: string): ReceiptHandleExpiredError {
    return new ReceiptHandleExpiredError(
      `Cannot ${what} message ${this.id} by delivery ${this.deliveryCount}: its visibility timeout ` +
        "has passed, or it was settled elsewhere",
    );
  }
}

/** Returns the calls of an engine that run in a transaction of the caller. */
export function transactionOf<B>(engine: Engine<B>, transaction: unknown): EngineTransaction<B> {
  if (engine.transaction === undefined) {
    throw new InvalidParameterError(
      `${
        engine.label ?? "This engine"
      } has no transactions: acknowledge without one, and make the ` +
        "handler idempotent",
    );
  }
  return engine.transaction(transaction);
}
