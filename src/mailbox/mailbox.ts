/**
 * The contract of a mailbox: at-least-once delivery, with a visibility timeout and a new receipt handle for
 * every delivery.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Random } from "../random.ts";
import type { BodyCodec } from "./codec.ts";
import type { Capabilities, OffThreadPlan, RateLimit } from "./engine.ts";
import type { EnvelopeOptions, ReplyMailbox } from "./envelope.ts";
import type { DeadLetter, Message, PeekedMessage } from "./message.ts";

export {
  BASIC_CAPABILITIES,
  type Capabilities,
  FULL_CAPABILITIES,
  type MessageState,
  type RateLimit,
} from "./engine.ts";
export type { MessageHeaders, ReplyAddress, ReplyMailbox } from "./envelope.ts";
export type {
  DeadLetter,
  DeadLetterReason,
  Message,
  NackOptions,
  PeekedMessage,
  Settlement,
  StepRecord,
  TransactionMessage,
} from "./message.ts";
export { MAX_VISIBILITY_MS } from "../_checks.ts";

/** The most messages per call. */
export const MAX_BATCH = 1_000;

/** The default visibility timeout of receives, loops and lease extensions. */
export const DEFAULT_VISIBILITY_TIMEOUT_MS = 300_000;

/** How long a loop waits for messages by default. A `receive` does not wait by default. */
export const DEFAULT_WAIT_TIME_MS = 20_000;

/** Returns the reply mailbox with this name. */
export type MailboxResolver = (
  name: string,
) => ReplyMailbox<never> | undefined | Promise<ReplyMailbox<never> | undefined>;

/** Options of every mailbox. */
export interface MailboxOptions {
  /** Finds the reply mailboxes of messages by name. */
  readonly resolver?: MailboxResolver;
  /**
   * The clock for waits and, where the engine has no clock of its own, for timeouts.
   *
   * @default {systemClock}
   */
  readonly clock?: Clock;
  /** The source of message ids and receipt handles. @default {systemRandom} */
  readonly random?: Random;
  /** Receives warnings about failures that were handled. @default {libraryLog} */
  readonly log?: Log;
  /** Encodes bodies and checkpoints, for example to encrypt or compress them. @default {JSON} */
  readonly codec?: BodyCodec;
}

/** The longest delay of a message: ten years. Engines without `longDelays` allow 12 hours. */
export const MAX_DELAY_MS = 315_360_000_000;

/** Options of {@linkcode Mailbox.send}. */
export interface SendOptions<R = unknown> extends EnvelopeOptions<R> {
  /** How long the message stays hidden, in milliseconds. @default {0} */
  readonly delayMs?: number;
  /** When the message becomes visible, in place of `delayMs`: a date or milliseconds since the Unix epoch. */
  readonly deliverAt?: Date | number;
  /** The id of the message. A message with the id of a stored message is not stored again. */
  readonly id?: string;
  /**
   * How long the mailbox remembers `id`, in milliseconds from the send, also after the message was handled.
   * A send with a remembered id and `dedupMs` stores nothing. @default {while the message is stored}
   */
  readonly dedupMs?: number;
  /** The `checkpoint` of the first delivery. */
  readonly checkpoint?: unknown;
}

/** The result of a send. */
export interface SendResult {
  /** The id of the message. */
  readonly id: string;
  /** False for a duplicate: nothing was stored. */
  readonly stored: boolean;
}

/** The options of all messages of {@linkcode Mailbox.sendMany}, or a function that returns those of each. */
export type SendManyOptions<T, R = unknown> =
  | Omit<SendOptions<R>, "id" | "dedupMs">
  | ((body: T, index: number) => SendOptions<R>);

/** Options of {@linkcode Mailbox.request}. */
export interface RequestOptions extends Omit<SendOptions, "replyTo" | "expiresInMs" | "onExpired"> {
  /** How long to wait for the reply. The request is not delivered later. @default {30_000} */
  readonly timeoutMs?: number;
  /** Ends the wait: `request` rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Counts of the messages of a mailbox. A count that the engine cannot tell is undefined. */
export interface MailboxStats {
  /** Messages that a receive would deliver, or that wait behind another message with their key. */
  readonly waiting: number;
  /** Messages that are hidden by their sender or until their retry. */
  readonly delayed?: number | undefined;
  /** Messages that workers hold. */
  readonly inFlight?: number | undefined;
  /** Dead letters. */
  readonly dead?: number | undefined;
  /** The time since the oldest waiting message was sent, in milliseconds; undefined when none waits. */
  readonly oldestWaitingMs?: number | undefined;
  /** True while the mailbox is paused for all processes. */
  readonly paused?: boolean | undefined;
  /** The time until a pause ends by itself, in milliseconds; undefined when it lasts until `resume`. */
  readonly pausedForMs?: number | undefined;
  /** The limit of deliveries to all processes together, if there is one. */
  readonly rateLimit?: RateLimit | undefined;
}

/** A queue that {@linkcode Mailbox.queues} found. */
export interface QueueStats extends MailboxStats {
  /** The name of the queue. */
  readonly name: string;
}

/** Options of {@linkcode Mailbox.peek}. */
export interface PeekOptions {
  /** How many of the oldest messages to leave out, for a list in pages. @default {0} */
  readonly skip?: number;
}

/** Options of {@linkcode Mailbox.pause}. */
export interface PauseOptions {
  /** How long the pause lasts, in milliseconds. @default {until `resume`} */
  readonly forMs?: number;
}

/** The part of a mailbox that takes part in a transaction of the caller. */
export type TransactionMailbox<T, R = unknown> = Pick<Mailbox<T, R>, "send" | "sendMany">;

/** Options of {@linkcode Mailbox.receive}. */
export interface ReceiveOptions {
  /** The most messages to receive, up to 1 000. @default {1} */
  readonly maxMessages?: number;
  /** How long the messages stay hidden from other receives, 0 to 43 200 000 ms. @default {300_000} */
  readonly visibilityTimeoutMs?: number;
  /** How long to wait for the first message, in milliseconds. @default {0} */
  readonly waitTimeMs?: number;
  /** Ends the wait: `receive` returns `[]`, and no message is lost. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode Mailbox.releaseMany}. */
export interface ReleaseOptions {
  /**
   * True if no handler was started. Such a release never counts as an attempt, if the engine can restore attempts.
   * @default {false}
   */
  readonly unstarted?: boolean;
}

/** A queue of messages. */
export interface Mailbox<T, R = unknown> extends AsyncDisposable {
  /** The name in logs, loops and reply addresses. */
  readonly name: string;
  /** True after `close`. */
  readonly closed: boolean;
  /** What the engine can do. */
  readonly capabilities: Capabilities;
  /** The name of the engine, such as `Redis`. */
  readonly engine?: string | undefined;
  /**
   * What the engine cannot do at the moment, such as a Redis server without memory that refuses sends.
   * Undefined while it can do everything. A loop on the mailbox goes on, and is not ready meanwhile.
   */
  readonly trouble?: string | undefined;
  /**
   * Stores a message. When this resolves, the message is safe.
   *
   * @throws {InvalidParameterError} when the engine cannot do what an option asks for. Nothing is stored.
   */
  send(body: T, options?: SendOptions<R>): Promise<SendResult>;
  /** Stores all messages, or throws and stores none of them. */
  sendMany(bodies: readonly T[], options?: SendManyOptions<T, R>): Promise<SendResult[]>;
  /**
   * Sends a message and waits for the reply of its handler.
   *
   * @throws {RequestTimeoutError} when no reply arrives in time.
   */
  request(body: T, options?: RequestOptions): Promise<R>;
  /** Receives messages. Resolves when one is available, or with `[]` when the wait is over. */
  receive(options?: ReceiveOptions): Promise<Message<T, R>[]>;
  /** Returns the number of messages, including those in flight and delayed. */
  approximateCount(): Promise<number>;
  /** Counts the messages by state. */
  stats(): Promise<MailboxStats>;
  /**
   * Returns the message with this id, without receiving it; undefined when the mailbox has none. Dead letters
   * have the ids of their messages. When several have the same id, `get` and `cancel` use the oldest one that is
   * not in flight, if there is one.
   */
  get(id: string): Promise<PeekedMessage<T> | undefined>;
  /**
   * Deletes the message with this id. Returns false when the mailbox has none. A handler that is running,
   * on any machine, is cancelled: its `signal` aborts with a `CancelledError` whose reason is `cancelled`.
   * The message is not delivered again, whatever the handler does.
   */
  cancel(id: string): Promise<boolean>;
  /**
   * Delivers a delayed message now: one that was sent with a delay, or that waits for its retry. Its attempts,
   * its key, a pause and a rate limit stay in effect. Returns false when the mailbox has no delayed message with
   * this id.
   *
   * @throws {InvalidParameterError} when the engine cannot do it.
   */
  deliverNow(id: string): Promise<boolean>;
  /**
   * Stops the deliveries to all processes, until `resume` or for `forMs`. A shorter pause does not shorten a
   * longer one. Messages in flight are not affected, nor are those that a loop has prefetched.
   */
  pause(options?: PauseOptions): Promise<void>;
  /** Continues the deliveries to all processes. */
  resume(): Promise<void>;
  /**
   * Limits the deliveries to all processes together: no period of `perMs` has more than `max`. Redeliveries
   * count too. The limit is stored with the queue and lasts until `rateLimit(false)`.
   *
   * @throws {TypeError | RangeError} when the limit is invalid.
   */
  rateLimit(limit: RateLimit | false): Promise<void>;
  /**
   * Returns the sends that run in a transaction of the caller: the messages are stored when it is committed.
   * `transaction` is the object that the database client hands to a transaction. Where that client needs no
   * promises, as those of SQLite, neither do these sends: they run at once, and throw instead of rejecting, so
   * that they can be used in a transaction function that must not return a promise.
   *
   * @throws {InvalidParameterError} when the engine has no transactions or cannot use this object.
   */
  withTransaction(transaction: unknown): TransactionMailbox<T, R>;
  /** Deletes every message and returns their number. */
  purge(): Promise<number>;
  /** Ends waiting receives and the connection. Stored messages stay. */
  close(): Promise<void>;

  /** The messages that failed for good, where the engine keeps them. */
  readonly deadLetters?: Mailbox<DeadLetter<T>>;
  /**
   * Acknowledges many messages in one call. Returns for each whether its receipt handle was valid: false for
   * a message that was settled before.
   */
  acknowledgeMany?(messages: readonly Message<T, R>[]): Promise<readonly boolean[]>;
  /** Releases many messages in one call. Returns for each whether its receipt handle was valid. */
  releaseMany?(
    messages: readonly Message<T, R>[],
    options?: ReleaseOptions,
  ): Promise<readonly boolean[]>;
  /** Extends many leases in one call. */
  extendMany?(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]>;
  /** Tells how another thread can extend leases while this one is blocked; undefined where it cannot. */
  offThread?(): OffThreadPlan | undefined;
  /** Returns the oldest messages without receiving them, at most 1 000. */
  peek?(maxMessages: number, options?: PeekOptions): Promise<readonly PeekedMessage<T>[]>;
  /** Returns the queues in the same database or on the same server, with their counts. */
  queues?(): Promise<readonly QueueStats[]>;
  /**
   * Returns another queue in the same database or on the same server, over the same connection and with the
   * same codec. Its `close` leaves the connection open; close it before this mailbox.
   *
   * @throws {InvalidParameterError} when the engine has one queue per connection.
   */
  queue?<U>(name: string): Mailbox<U>;
  /** Calls `listener` with the id of each message that was cancelled while in flight, in any process. */
  onCancel?(listener: (id: string) => void): () => void | Promise<void>;
}
