/**
 * The contract of a mailbox: at least once, with a visibility timeout and a new receipt for every
 * delivery.
 *
 * @module
 */

import type { TraceContext } from "../telemetry/trace_context.ts";
import type { LeaseKeepingPlan } from "./lease_keeping.ts";

/** What an engine can do. Flags and never a subclass: a caller asks, a test is gated. */
export interface Capabilities {
  /** A stale receipt cannot acknowledge, nack or extend. */
  readonly fencedAck: boolean;
  /** Each receive may choose its own visibility timeout. */
  readonly perReceiveVisibility: boolean;
  /** A release does not spend a delivery attempt. */
  readonly restoresAttempts: boolean;
  /** Messages come in the order they were sent, also after a release. */
  readonly fifo: boolean;
  /** A message can be sent with a delay. */
  readonly delay: boolean;
  /** A message that is sent with the id of one that is still there is not stored twice. */
  readonly dedup: boolean;
  /** `approximateCount` is exact. */
  readonly exactCount: boolean;
}

/** What an engine has that can do everything. */
export const FULL_CAPABILITIES: Capabilities = {
  fencedAck: true,
  perReceiveVisibility: true,
  restoresAttempts: true,
  fifo: true,
  delay: true,
  dedup: true,
  exactCount: true,
};

export { MAX_VISIBILITY_MS } from "../_checks.ts";

/** More messages at once would hold an engine up for too long. */
export const MAX_BATCH = 1_000;

/** The part of a mailbox that replies need. */
export interface ReplyMailbox<R> {
  /** What a message carries as its reply address. */
  readonly name: string;
  /** Stores a reply and returns its id. */
  send(body: R): Promise<string>;
}

/** Where replies go: a mailbox, or its name where the other side can resolve it. */
export type ReplyAddress<R> = ReplyMailbox<R> | string;

/** Options of {@linkcode Mailbox.send}. */
export interface SendOptions<R = unknown> {
  /** Where the receiver's replies go. */
  readonly replyTo?: ReplyAddress<R>;
  /** How long the message stays hidden. @default {0} */
  readonly delayMs?: number;
  /** An id of your own; a message with the id of one that is still there is not stored again. */
  readonly id?: string;
  /**
   * Called with the id of each message that was not stored, because a message with that id is still in
   * the mailbox. An error that it throws rejects the call of `send`.
   */
  readonly onDuplicate?: (id: string) => void;
  /** The `checkpoint` of the first delivery, as if an earlier delivery had saved it. */
  readonly checkpoint?: unknown;
  /** The trace it belongs to. @default {the active one, where OpenTelemetry is in use} */
  readonly trace?: TraceContext;
}

/** Options of {@linkcode Mailbox.receive}. */
export interface ReceiveOptions {
  /** How many messages at the most, up to 1 000. @default {1} */
  readonly maxMessages?: number;
  /** How long they stay invisible to others, from 0 to 43 200 000. @default {300_000} */
  readonly visibilityTimeoutMs?: number;
  /** How long to wait for the first one. @default {0} */
  readonly waitTimeMs?: number;
  /** Ends the wait; the answer is then `[]`, and no message is lost by it. */
  readonly signal?: AbortSignal;
}

/** A queue of messages. */
export interface Mailbox<T, R = unknown> extends AsyncDisposable {
  /** What logs, loops and reply addresses call it. */
  readonly name: string;
  /** True after `close`. */
  readonly closed: boolean;
  /** What the engine behind it can do. */
  readonly capabilities: Capabilities;
  /** What people call the engine behind it, as `Redis`, where that is known. */
  readonly engine?: string | undefined;
  /**
   * What the engine cannot do at the moment, though it answers: it refuses sends, say. Undefined while it
   * can do everything. A loop on the mailbox goes on, and is not ready meanwhile.
   */
  readonly trouble?: string | undefined;
  /** Stores a message and returns its id. Once this has resolved, the message is not lost. */
  send(body: T, options?: SendOptions<R>): Promise<string>;
  /** Stores all messages, or none of them. */
  sendMany(bodies: readonly T[], options?: Omit<SendOptions<R>, "id">): Promise<string[]>;
  /** Takes messages: as soon as one is there, `[]` when the wait is over. */
  receive(options?: ReceiveOptions): Promise<Message<T, R>[]>;
  /** How many messages are there, in flight and delayed ones included. */
  approximateCount(): Promise<number>;
  /** Deletes every message and returns how many that were. */
  purge(): Promise<number>;
  /** Wakes whoever waits and takes nothing more. What is stored stays stored. */
  close(): Promise<void>;

  /** Where messages go that failed for good, where the engine keeps them. */
  readonly deadLetters?: Mailbox<DeadLetter<T>>;
  /**
   * Acknowledges many at once; the answer tells for each whether its receipt was still good. One that
   * was settled before answers false, and does not hold up the others.
   */
  acknowledgeMany?(messages: readonly Message<T, R>[]): Promise<readonly boolean[]>;
  /** Releases many at once. */
  releaseMany?(messages: readonly Message<T, R>[]): Promise<readonly boolean[]>;
  /** Extends many at once. */
  extendMany?(
    messages: readonly Message<T, R>[],
    visibilityTimeoutMs: number,
  ): Promise<readonly boolean[]>;
  /**
   * How another thread can extend leases while this one is blocked; undefined where it cannot.
   */
  leaseKeeping?(): Promise<LeaseKeepingPlan | undefined>;
  /** Looks at the oldest messages without taking them. */
  peek?(maxMessages: number): Promise<readonly PeekedMessage<T>[]>;
}

/** Options of {@linkcode Message.nack}. */
export interface NackOptions {
  /** How long it stays hidden. @default {0} */
  readonly visibilityTimeoutMs?: number;
  /** False when the failure is not the message's fault. @default {true} */
  readonly spendsAttempt?: boolean;
}

/** How one delivery of a message was settled. */
export type Settlement = "acknowledged" | "nacked" | "released" | "deadLettered";

/** One delivery of a message. */
export interface Message<T, R = unknown> {
  /** The sender's own, or made up; the same for every delivery. */
  readonly id: string;
  /** As it was sent. */
  readonly body: T;
  /** New for every delivery. */
  readonly receiptHandle: string;
  /** Counts the deliveries from 1; a release gives one back. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** The name of the mailbox that replies go to. */
  readonly replyTo?: string | undefined;
  /** The trace it was sent in, where there was one. */
  readonly trace?: TraceContext | undefined;
  /** The progress that was saved last, by an earlier delivery or by this one. */
  readonly checkpoint?: unknown;
  /** True once it was acknowledged, nacked, released or buried. */
  readonly finalized: boolean;
  /** How it was settled; undefined until it is, and where a mailbox does not tell. */
  readonly settlement?: Settlement | undefined;
  /** Resolves when the settling call that is under way has ended; undefined when none is. */
  readonly settling?: Promise<void> | undefined;
  /** It is done: removes it for good. */
  acknowledge(): Promise<void>;
  /** It failed: gives it back, hidden for as long as asked. */
  nack(options?: NackOptions): Promise<void>;
  /** It was not touched: gives it back to the front, without spending an attempt. */
  release(): Promise<void>;
  /** It failed for good: moves it to the dead letters in one step. */
  bury(reason: DeadLetterReason): Promise<void>;
  /** Keeps it for at least `ms` from now. Never shortens. */
  extendVisibility(ms: number): Promise<void>;
  /** Saves progress, which the next delivery of this message gets as its `checkpoint`. */
  saveCheckpoint(progress: unknown): Promise<void>;
  /** Sends an answer to the reply address. */
  reply(body: R): Promise<string>;
}

/** A message as seen without taking it. */
export interface PeekedMessage<T> {
  /** That of the message. */
  readonly id: string;
  /** As it was sent. */
  readonly body: T;
  /** How often it was delivered so far. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
}

/** Why a message is with the dead letters. */
export interface DeadLetterReason {
  /** For people and for filters: `max_deliveries`, `handler_error`, `schema`, `unreadable`, … */
  readonly reason: string;
  /** What the last attempt failed with, as text. */
  readonly error?: string;
}

/** A message that failed for good. */
export interface DeadLetter<T> extends DeadLetterReason {
  /** That of the message. */
  readonly id: string;
  /** The body as it was sent. */
  readonly body?: T;
  /** The stored text, where it could not be read. */
  readonly raw?: string;
  /** How often it was delivered before it failed for good. */
  readonly deliveryCount: number;
  /** When it was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** When it failed for good, in milliseconds since the Unix epoch. */
  readonly deadAt: number;
  /** The name of the mailbox that replies would have gone to. */
  readonly replyTo?: string;
  /** The progress it had made. */
  readonly checkpoint?: unknown;
  /** The trace it was sent in, which goes on when it is sent back. */
  readonly trace?: TraceContext;
}
