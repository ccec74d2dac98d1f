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
import type { Capabilities, MessageState, OffThreadPlan } from "./engine.ts";
import type { EnvelopeOptions, MessageEnvelope, ReplyMailbox } from "./envelope.ts";

export {
  BASIC_CAPABILITIES,
  type Capabilities,
  FULL_CAPABILITIES,
  type MessageState,
} from "./engine.ts";
export type { MessageHeaders, ReplyAddress, ReplyMailbox } from "./envelope.ts";
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
}

/** A queue that {@linkcode Mailbox.queues} found. */
export interface QueueStats extends MailboxStats {
  /** The name of the queue. */
  readonly name: string;
}

/** The part of a mailbox that takes part in a transaction of the caller. */
export type TransactionMailbox<T, R = unknown> = Pick<Mailbox<T, R>, "send" | "sendMany">;

/** The part of a message that takes part in a transaction of the caller. */
export interface TransactionMessage {
  /** Deletes the message when the transaction is committed. After a rollback the message is unchanged. */
  acknowledge(): Promise<void>;
}

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
  /** Returns the message with this id, without receiving it; undefined when the mailbox has none. */
  get(id: string): Promise<PeekedMessage<T> | undefined>;
  /**
   * Deletes the message with this id. Returns false when the mailbox has none. A handler that is running,
   * on any machine, is cancelled: its `signal` aborts with a `CancelledError` whose reason is `cancelled`.
   * The message is not delivered again, whatever the handler does.
   */
  cancel(id: string): Promise<boolean>;
  /** Stops the deliveries to all processes until `resume`. Messages in flight are not affected. */
  pause(): Promise<void>;
  /** Continues the deliveries to all processes. */
  resume(): Promise<void>;
  /**
   * Returns the sends that run in a transaction of the caller: the messages are stored when it is committed.
   * `transaction` is the object that the database client hands to a transaction.
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
  /** Releases many messages in one call. */
  releaseMany?(messages: readonly Message<T, R>[]): Promise<readonly boolean[]>;
  /** Extends many leases in one call. */
  extendMany?(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]>;
  /** Tells how another thread can extend leases while this one is blocked; undefined where it cannot. */
  offThread?(): OffThreadPlan | undefined;
  /** Returns the oldest messages without receiving them. */
  peek?(maxMessages: number): Promise<readonly PeekedMessage<T>[]>;
  /** Returns the queues in the same database or on the same server, with their counts. */
  queues?(): Promise<readonly QueueStats[]>;
  /** Calls `listener` with the id of each message that was cancelled while in flight, in any process. */
  onCancel?(listener: (id: string) => void): () => void | Promise<void>;
}

/** Options of {@linkcode Message.nack}. */
export interface NackOptions {
  /** How long the message stays hidden, in milliseconds. @default {0} */
  readonly delayMs?: number;
  /** Whether the delivery counts as an attempt. @default {true} */
  readonly countsAttempt?: boolean;
}

/** How one delivery of a message was settled. */
export type Settlement = "acknowledged" | "nacked" | "released" | "deadLettered";

/** One delivery of a message. */
export interface Message<T, R = unknown> extends MessageEnvelope {
  /** Chosen by the sender, or generated. The same for every delivery. */
  readonly id: string;
  /** The body as it was sent. */
  readonly body: T;
  /** Identifies this delivery. */
  readonly receiptHandle: string;
  /** The number of this delivery, from 1. A release does not count. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** When it expires, in milliseconds since the Unix epoch; undefined when it does not. */
  readonly expiresAt?: number | undefined;
  /** The last saved checkpoint, of an earlier delivery or of this one. */
  readonly checkpoint?: unknown;
  /** True after it was acknowledged, nacked, released or dead-lettered. */
  readonly finalized: boolean;
  /** How the delivery was settled; undefined before, and where a mailbox does not tell. */
  readonly settlement?: Settlement | undefined;
  /** Resolves when the running settling call has ended; undefined when none runs. */
  readonly settling?: Promise<void> | undefined;
  /** Removes the message: it was handled. */
  acknowledge(): Promise<void>;
  /** Returns the message to the queue after a failure, hidden for `delayMs`. */
  nack(options?: NackOptions): Promise<void>;
  /** Returns the message to the front of the queue. The delivery does not count as an attempt. */
  release(): Promise<void>;
  /** Moves the message to the dead letters, in one step. */
  deadLetter(reason: DeadLetterReason): Promise<void>;
  /** Extends the lease to at least `ms` from now. Never shortens it. */
  extendVisibility(ms: number): Promise<void>;
  /** Saves a checkpoint for the next delivery of this message. */
  saveCheckpoint(checkpoint: unknown): Promise<void>;
  /**
   * Sends a reply to the reply mailbox. A reply to a `request` that has timed out is dropped.
   *
   * @throws {ReplyNotAvailableError} when the message has no reply address, or its mailbox is unknown here.
   */
  reply(body: R): Promise<void>;
  /**
   * Returns the acknowledgement that runs in a transaction of the caller. A handler that returns after it
   * needs no other acknowledgement. One that throws is retried if the transaction was rolled back.
   *
   * @throws {InvalidParameterError} when the engine has no transactions or cannot use this object.
   */
  withTransaction(transaction: unknown): TransactionMessage;
}

/** A message that `peek` or `get` returns. */
export interface PeekedMessage<T> extends MessageEnvelope {
  /** The id of the message. */
  readonly id: string;
  /** The body as it was sent. */
  readonly body: T;
  /** How often the message was delivered. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** Where the message is; undefined where the engine does not tell. */
  readonly state?: MessageState | undefined;
  /** The last saved checkpoint. */
  readonly checkpoint?: unknown;
}

/** Why a message was dead-lettered. */
export interface DeadLetterReason {
  /** A code for people and filters: `max_deliveries`, `handler_error`, `schema`, `expired`, … */
  readonly reason: string;
  /** The error of the last attempt, as text. */
  readonly error?: string;
}

/** A message that failed for good. */
export interface DeadLetter<T> extends DeadLetterReason, MessageEnvelope {
  /** The id of the message. */
  readonly id: string;
  /** The body as it was sent. */
  readonly body?: T;
  /** The stored text, where the body could not be decoded. */
  readonly raw?: string;
  /** How often the message was delivered. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** When it was dead-lettered, in milliseconds since the Unix epoch. */
  readonly deadAt: number;
  /** The last saved checkpoint. */
  readonly checkpoint?: unknown;
}
