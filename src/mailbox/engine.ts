/**
 * The interface between a mailbox and its storage. An engine stores and delivers. What all mailboxes share
 * (checks, waiting, settling once, replies, dead letters) is in `EngineMailbox`.
 *
 * @module
 */

import type { Capabilities } from "./capabilities.ts";
import type { OffThreadPlan } from "./off_thread.ts";

export type { OffThreadExtender, OffThreadModule, OffThreadPlan } from "./off_thread.ts";
export { BASIC_CAPABILITIES, type Capabilities, FULL_CAPABILITIES } from "./capabilities.ts";

/** A result that an engine in memory returns without a promise. */
export type Maybe<T> = T | Promise<T>;

/** A message to store. `B` is the type of encoded values. */
export interface Entry<B> {
  /** Unique in the mailbox. Chosen by the sender, or generated. */
  readonly id: string;
  /** The encoded body. */
  readonly body: B;
  /** The encoded envelope. The engine stores it with the body and does not read it. */
  readonly meta?: B | undefined;
  /** How long the message stays hidden, in milliseconds. */
  readonly delayMs: number;
  /** True when the sender chose the id: a second message with it must not be stored. */
  readonly dedup: boolean;
  /**
   * How long the engine remembers the id, in milliseconds from now, also after the message is gone. An entry
   * with `dedupMs` is a duplicate of a remembered id; one without it only of a stored message. Needs `dedup`.
   */
  readonly dedupMs?: number | undefined;
  /** Messages with the same key are delivered one at a time, in order. See {@linkcode Engine}. */
  readonly key?: string | undefined;
  /** From 0 to 9. A higher one is delivered first. @default {0} */
  readonly priority?: number | undefined;
  /** The checkpoint that the first delivery gets. */
  readonly checkpoint?: B | undefined;
}

/**
 * Where a stored message is: `waiting` for a worker, or behind another message with its key; `delayed` by its
 * sender or until its retry; `inFlight` with a worker.
 */
export type MessageState = "waiting" | "delayed" | "inFlight";

/** A message that the engine stores, in any state. */
export interface StoredMessage<B> {
  /** The id of the message. */
  readonly id: string;
  /** The encoded body. */
  readonly body: B;
  /** The encoded envelope, as it was sent. */
  readonly meta?: B | undefined;
  /** How often the message was delivered. For a delivery: its number, from 1. */
  readonly deliveryCount: number;
  /** When the message was sent, by the engine's clock, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** The last saved checkpoint. */
  readonly checkpoint?: B | undefined;
  /** Where the message is. Only `peek` and `find` tell. */
  readonly state?: MessageState | undefined;
}

/** A delivered message. The engine gets the same object back when it is settled. */
export interface Delivery<B> extends StoredMessage<B> {
  /** Unique for each delivery. */
  readonly receiptHandle: string;
  /**
   * How many earlier deliveries ended unsettled: their lease expired, or their process died. They are part of
   * `deliveryCount`. Undefined where the engine does not know.
   */
  readonly leaseExpiries?: number | undefined;
}

/** The result of a receive. */
export interface Received<B> {
  /** The oldest visible messages, at most as many as requested. */
  readonly deliveries: readonly Delivery<B>[];
  /** Without messages: the time until the next receive can deliver one, or `Infinity`. */
  readonly nextDueMs: number;
  /**
   * The time of the receive by the clock of `enqueuedAt`, in milliseconds since the Unix epoch. It decides
   * which deliveries have expired. @default {the clock of the mailbox}
   */
  readonly now?: number | undefined;
}

/**
 * Deliveries that the engine hands to a waiting receive. The engine leased them when it stored the messages, so a
 * message to an idle worker needs no receive.
 */
export interface Handover<B> extends Received<B> {
  /** The visibility timeout of the leases. A receive with another one must not return the deliveries. */
  readonly visibilityMs: number;
}

/** The most deliveries in any period of `perMs`. */
export interface RateLimit {
  /** How many messages are delivered at the most, up to 1 000 000. */
  readonly max: number;
  /** The length of the period in milliseconds, up to 86 400 000 (a day). */
  readonly perMs: number;
}

/** What {@linkcode Engine.stats} counts. An engine omits what it cannot tell. */
export interface EngineStats {
  /** Messages that a receive would deliver, or that wait behind another message with their key. */
  readonly waiting: number;
  /** Messages that are hidden by their sender or until their retry. */
  readonly delayed?: number | undefined;
  /** Messages with an unexpired lease. */
  readonly inFlight?: number | undefined;
  /** The time since the oldest waiting message was sent, in milliseconds; undefined when none waits. */
  readonly oldestWaitingMs?: number | undefined;
  /** True while `pause` stops all deliveries. */
  readonly paused?: boolean | undefined;
  /** The time until a pause ends by itself, in milliseconds; undefined when it lasts until it is resumed. */
  readonly pausedForMs?: number | undefined;
  /** The limit of deliveries to all processes together, if there is one. */
  readonly rateLimit?: RateLimit | undefined;
}

/** The calls of an engine that take part in a transaction of the caller. */
export interface EngineTransaction<B> {
  /**
   * True when its calls return no promise, so that they can run in a transaction function that must not return
   * one. The mailbox then throws at once, too. @default {false}
   */
  readonly synchronous?: boolean;
  /** The same as {@linkcode Engine.send}. Receivers wake when the transaction is committed. */
  send(entries: readonly Entry<B>[]): Maybe<readonly boolean[]>;
  /** The same as {@linkcode Engine.acknowledge}. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
}

/**
 * The storage of one mailbox.
 *
 * - Every call is atomic for all its arguments.
 * - A delivery is stale from the moment its visibility timeout passes, also when the message was not
 *   received again. Settling a stale delivery changes nothing and returns `false`.
 * - A call that throws has changed nothing, or the next call detects what it changed: the same
 *   settlement, repeated, returns `true` for what the first call did before its answer was lost.
 * - The messages of a key form a line in the order in which they were sent, or became due. Only the first
 *   one can be delivered. It stays the first while it is in flight, released, nacked or its lease has
 *   expired, and leaves the line when it is acknowledged, dead-lettered or cancelled. The others wait.
 * - Of the messages that can be delivered, those with the highest priority come first, oldest first.
 * - With `ownerDetection`, the leases of a process that died expire within seconds. A process that is frozen or
 *   blocked, or that reconnects, keeps its leases until they expire.
 *
 * Members for which the engine lacks the capability may be absent.
 */
export interface Engine<B> {
  /** What the engine can do. `mailboxCases` tests it. */
  readonly capabilities: Capabilities;
  /** The name of the engine in the status of a group, such as `Redis`. */
  readonly label?: string | undefined;
  /** What the engine cannot do at the moment; undefined while it can do everything. */
  readonly trouble?: string | undefined;
  /**
   * Stores all entries, or throws and stores none. Returns for each entry whether it was stored: false for
   * a duplicate, that is, an entry with `dedup` whose id is in the mailbox, or is remembered because of an
   * earlier `dedupMs`.
   */
  send(entries: readonly Entry<B>[]): Maybe<readonly boolean[]>;
  /**
   * Delivers visible messages in their order, at most `max`, and hides them for `visibilityMs`. Delivers none
   * while the queue is paused, and no more than its rate limit allows. Does not wait.
   *
   * With `waits`, the caller listens (`onWake`) and waits for messages if the answer has none. The engine may
   * then hand over messages that are sent from now on. See {@linkcode Engine.onWake}.
   */
  receive(max: number, visibilityMs: number, waits?: boolean): Maybe<Received<B>>;
  /** Removes messages. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /** Extends leases to `visibilityMs` from now. Never shortens a lease. */
  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): Maybe<readonly boolean[]>;
  /** Returns failed messages to the queue, hidden for `delayMs`. The attempt counts with `countsAttempt`. */
  nack(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Maybe<readonly boolean[]>;
  /** Returns messages to their position. The first five releases after a checkpoint count no attempt. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /**
   * Removes a message and stores `letter` in the dead letters, in one step. Stores it also when the dead
   * letters have one with the same id: ids can be used again.
   */
  deadLetter(delivery: Delivery<B>, letter: Entry<B>): Maybe<boolean>;
  /**
   * Saves a checkpoint with the message. It starts the count of free releases again: a message that advances
   * between releases spends no attempt.
   */
  checkpoint(delivery: Delivery<B>, checkpoint: B): Maybe<boolean>;
  /** Returns the oldest messages after the first `skip`, whatever their state. @default {0} */
  peek(max: number, skip?: number): Maybe<readonly StoredMessage<B>[]>;
  /** Returns the number of messages, whatever their state. */
  count(): Maybe<number>;
  /** Counts the messages by state. */
  stats(): Maybe<EngineStats>;
  /** Deletes all messages and all remembered ids, and returns the number of messages. */
  purge(): Maybe<number>;
  /**
   * Returns the message with this id, whatever its state. Dead letters may have the same id: then the oldest one
   * without a lease or, when all have one, the oldest.
   */
  find?(id: string): Maybe<StoredMessage<B> | undefined>;
  /**
   * Deletes the message that `find` finds, whatever its state, and returns whether there was one. If it was in
   * flight, its receipt handle expires, and `onCancel` of every process reports the id. The id stays
   * remembered for its `dedupMs`.
   */
  cancel?(id: string): Maybe<boolean>;
  /**
   * Ends the delay of the message with this id, and returns whether it was delayed. The message becomes visible
   * like one whose delay has passed: it joins the line of its key, or stays the first of it. Wakes the
   * receivers of all processes. Needed with `lookup`; without it the mailbox refuses `deliverNow`.
   */
  deliverNow?(id: string): Maybe<boolean>;
  /** Calls `listener` with the id of each message that was cancelled while in flight, in any process. */
  onCancel?(listener: (id: string) => void): () => Maybe<void>;
  /**
   * Stops the deliveries to all processes for `forMs` milliseconds, with `Infinity` until they are resumed. It
   * never shortens an earlier pause. With 0 it continues them. It lasts through restarts. All receives that
   * wait learn of it at once.
   */
  pause?(forMs: number): Maybe<void>;
  /**
   * Limits the deliveries to all processes together, or with undefined ends the limit. It lasts through
   * restarts. `QueueControl` defines what the limit counts.
   */
  rateLimit?(limit: RateLimit | undefined): Maybe<void>;
  /**
   * Returns the calls that run in a transaction of the caller.
   *
   * @throws {InvalidParameterError} when `transaction` is not an object that the engine can use.
   */
  transaction?(transaction: unknown): EngineTransaction<B>;
  /**
   * Returns another queue of the same storage, without a limit of its size, over the same connection. Its
   * `close` is never called.
   */
  queue?(name: string): Engine<B>;
  /** Returns the names of all queues in the same storage, without their dead letters. */
  queues?(): Maybe<readonly string[]>;
  /** Deletes everything of the queue, also what `purge` leaves. For queues that are not used again. */
  drop?(): Maybe<void>;
  /**
   * Calls `listener` when messages may have become visible, other than by time. An engine needs to listen
   * to its server only while there are listeners. The returned remover resolves soon, when no message is
   * being delivered to the removed listener, and never rejects.
   *
   * With a {@linkcode Handover}, the listener gets deliveries for a receive with `waits`, at most once per receive
   * and at most its `max`. They are ordinary deliveries: the mailbox settles them, and releases them if no receive
   * waits any more. The engine hands over only messages that a receive at that moment would deliver. If a handover
   * does not arrive, because it was lost or the receiver is frozen, its messages must become visible again within
   * seconds, without an attempt. The remover ends the wait: it resolves when no handover can follow, and messages on
   * their way are visible again.
   */
  onWake(listener: (handover?: Handover<B>) => void): () => Maybe<void>;
  /** Returns the storage of the dead letters. Called once. Its `close` is never called. */
  deadLetters(): Engine<B>;
  /** Tells how another thread can extend the leases; undefined where it cannot. */
  offThread?(): OffThreadPlan | undefined;
  /** Closes the connections and files of the mailbox and its dead letters, after their pending calls. */
  close(): Maybe<void>;
}

/** From the next release on, a release counts as an attempt. */
export const FREE_RELEASES = 5;

/**
 * Returns for each entry whether it is new: false for a duplicate of a stored message, of a remembered id or
 * of an earlier entry. `isKnown` tells whether this chosen id is in the mailbox or, for an entry with
 * `dedupMs`, remembered.
 */
export function freshnessOf(
  entries: readonly Pick<Entry<unknown>, "id" | "dedup" | "dedupMs">[],
  isKnown: (id: string, dedupMs: number | undefined) => boolean,
): boolean[] {
  let chosen: Set<string> | undefined;
  return entries.map(({ id, dedup, dedupMs }) => {
    if (!dedup) return true;
    if (chosen?.has(id) || isKnown(id, dedupMs)) return false;
    (chosen ??= new Set()).add(id);
    return true;
  });
}
