import type { MessageState } from "./engine.ts";
import type { MessageEnvelope } from "./envelope.ts";
import type { StepRecord } from "./_progress.ts";

export type { StepRecord } from "./_progress.ts";

/** Options of {@linkcode Message.nack}. */
export interface NackOptions {
  /** How long the message stays hidden, in milliseconds. @default {0} */
  readonly delayMs?: number;
  /** Whether the delivery counts as an attempt. @default {true} */
  readonly countsAttempt?: boolean;
}

/** The part of a message that takes part in a transaction of the caller. */
export interface TransactionMessage {
  /** Deletes the message when the transaction is committed. After a rollback the message is unchanged. */
  acknowledge(): Promise<void>;
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
  /**
   * How many earlier deliveries ended unsettled, because their lease expired or their process died. They are
   * part of `deliveryCount`. Undefined where the engine does not know.
   */
  readonly leaseExpiries?: number | undefined;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** When it expires, in milliseconds since the Unix epoch; undefined when it does not. */
  readonly expiresAt?: number | undefined;
  /** The last saved checkpoint, of an earlier delivery or of this one. */
  readonly checkpoint?: unknown;
  /** The steps that earlier deliveries and this one have finished. */
  readonly steps: readonly StepRecord[];
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
  /** Saves the result of a step. Handlers use `step` of their context. */
  saveStep(step: StepRecord): Promise<void>;
  /**
   * Sends a reply to the reply mailbox. A reply to a `request` that has timed out is dropped.
   *
   * @throws {ReplyNotAvailableError} when the message has no reply address, or its mailbox is unknown here.
   */
  reply(body: R): Promise<void>;
  /**
   * Checks that `reply` would find an open reply mailbox, without sending anything. Call it before work whose
   * result only the reply carries.
   *
   * @throws {ReplyNotAvailableError} when the message has no reply address, or its mailbox is unknown here.
   * @throws {MailboxClosedError} when the reply mailbox is closed.
   */
  checkReply(): Promise<void>;
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
  /** The steps that its handler has finished. */
  readonly steps?: readonly StepRecord[];
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
  /** The last saved checkpoint, together with the finished steps. A redrive continues with it. */
  readonly checkpoint?: unknown;
}
