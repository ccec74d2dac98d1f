/**
 * The interface between a mailbox and its storage. An engine stores and delivers. What all mailboxes share
 * (checks, waiting, settling once, replies, dead letters) is in `EngineMailbox`.
 *
 * @module
 */

import type { Capabilities, ReplyMailbox } from "./mailbox.ts";

/** A result that an engine in memory returns without a promise. */
export type Maybe<T> = T | Promise<T>;

/** The reply address. Engines that store on disk or on a server store its name. */
export type StoredReplyAddress = string | ReplyMailbox<never>;

/** A message to store. `B` is the type of encoded bodies. */
export interface Entry<B> {
  /** Unique in the mailbox. Chosen by the sender, or generated. */
  readonly id: string;
  /** The encoded body. */
  readonly body: B;
  /** How long the message stays hidden, in milliseconds. */
  readonly delayMs: number;
  /** Where replies go. */
  readonly replyTo?: StoredReplyAddress | undefined;
  /** True when the sender chose the id: a second message with it must not be stored. */
  readonly dedup: boolean;
  /** The checkpoint that the first delivery gets. */
  readonly checkpoint?: B | undefined;
}

/** A delivered message. The engine gets the same object back when it is settled. */
export interface Delivery<B> {
  /** The id of the message. */
  readonly id: string;
  /** The encoded body. */
  readonly body: B;
  /** Unique for each delivery. */
  readonly receipt: string;
  /** The number of this delivery, from 1. */
  readonly deliveryCount: number;
  /** When the message was sent, by the engine's clock, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** Where replies go. */
  readonly replyTo?: StoredReplyAddress | undefined;
  /** The last saved checkpoint. */
  readonly checkpoint?: B | undefined;
}

/** The result of a pull. */
export interface Pulled<B> {
  /** The oldest visible messages, at most as many as requested. */
  readonly deliveries: readonly Delivery<B>[];
  /** Without messages: the time until the next one becomes visible, or `Infinity`. */
  readonly nextDueMs: number;
}

/**
 * The storage of one mailbox.
 *
 * - Every call is atomic for all its arguments.
 * - A delivery is stale from the moment its visibility timeout passes, also when the message was not
 *   received again. Settling a stale delivery changes nothing and returns `false`.
 * - A call that throws has changed nothing, or the next call detects what it changed: the same
 *   settlement, repeated, returns `true` for what the first call did before its answer was lost.
 */
export interface Engine<B> {
  /** What the engine can do. `mailboxCases` tests it. */
  readonly capabilities: Capabilities;
  /** The name of the engine in the status of a group, such as `Redis`. */
  readonly label?: string | undefined;
  /**
   * Stores all entries, or throws and stores none. Returns for each entry whether it was stored: false for
   * a duplicate, that is, an entry with `dedup` whose id is in the mailbox.
   */
  push(entries: readonly Entry<B>[]): Maybe<readonly boolean[]>;
  /** Delivers the oldest visible messages, at most `max`, and hides them for `visibilityMs`. Does not wait. */
  pull(max: number, visibilityMs: number): Maybe<Pulled<B>>;
  /** Removes messages. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /** Extends leases to `visibilityMs` from now. Never shortens a lease. */
  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): Maybe<readonly boolean[]>;
  /** Returns failed messages to the queue, hidden for `delayMs`. The attempt counts with `spendsAttempt`. */
  retry(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    spendsAttempt: boolean,
  ): Maybe<readonly boolean[]>;
  /** Returns messages to their position. The first five releases do not count as attempts. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /**
   * Removes a message and stores `letter` in the dead letters, in one step. Stores it also when the dead
   * letters have one with the same id: ids can be used again.
   */
  bury(delivery: Delivery<B>, letter: B): Maybe<boolean>;
  /** Saves a checkpoint with the message. */
  checkpoint(delivery: Delivery<B>, progress: B): Maybe<boolean>;
  /** Returns the oldest messages, whatever their state. */
  peek(max: number): Maybe<readonly Omit<Delivery<B>, "receipt">[]>;
  /** Returns the number of messages, whatever their state. */
  count(): Maybe<number>;
  /** Deletes all messages and returns their number. */
  purge(): Maybe<number>;
  /**
   * Calls `listener` when messages may have become visible, other than by time. An engine needs to listen
   * to its server only while there are listeners. The returned remover resolves soon, when no message is
   * being delivered to the removed listener, and never rejects.
   */
  onWake(listener: () => void): () => Maybe<void>;
  /** Returns the storage of the dead letters. Called once. */
  deadLetters(): Engine<B>;
  /** Closes connections and files. */
  close(): Maybe<void>;
}

/** From the next release on, a release counts as an attempt. */
export const FREE_RELEASES = 5;

/**
 * Returns for each entry whether it is new: false for a duplicate of a stored message or of an earlier
 * entry. `isStored` tells whether a message with this chosen id is in the mailbox.
 */
export function freshnessOf(
  entries: readonly Pick<Entry<unknown>, "id" | "dedup">[],
  isStored: (id: string) => boolean,
): boolean[] {
  const chosen = new Set<string>();
  return entries.map(({ id, dedup }) => {
    if (!dedup) return true;
    if (chosen.has(id) || isStored(id)) return false;
    chosen.add(id);
    return true;
  });
}
