/**
 * What an engine does for a mailbox. An engine stores and hands over; everything that all mailboxes
 * have in common (checks, waiting, settling once, replies, dead letters) is done above it.
 *
 * @module
 */

import type { Capabilities, ReplyMailbox } from "./mailbox.ts";

/** An engine that needs no wait answers at once. */
export type Maybe<T> = T | Promise<T>;

/** Where replies go. Engines that outlive the process keep the name. */
export type StoredReplyAddress = string | ReplyMailbox<never>;

/** A message on its way in. `B` is what the engine stores as a body. */
export interface Entry<B> {
  /** Unique in the mailbox; the sender's own, or made up. */
  readonly id: string;
  /** As the codec encoded it. */
  readonly body: B;
  /** How long it stays hidden; 0 for not at all. */
  readonly delayMs: number;
  /** Where replies go. */
  readonly replyTo?: StoredReplyAddress | undefined;
  /** The id was chosen by the sender: one that is there already must not be stored again. */
  readonly dedup: boolean;
  /** The checkpoint of its first delivery; undefined for none. */
  readonly checkpoint?: B | undefined;
}

/** A message on its way out. Engines get the same object back when it is settled. */
export interface Delivery<B> {
  /** That of the entry. */
  readonly id: string;
  /** As it was pushed. */
  readonly body: B;
  /** Unique for each delivery. */
  readonly receipt: string;
  /** From 1, this one included. */
  readonly deliveryCount: number;
  /** By the engine's own clock, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  /** Where replies go. */
  readonly replyTo?: StoredReplyAddress | undefined;
  /** The progress that was saved last. */
  readonly checkpoint?: B | undefined;
}

/** What a pull gives. */
export interface Pulled<B> {
  /** The oldest that are due, at most as many as asked for. */
  readonly deliveries: readonly Delivery<B>[];
  /** When there was nothing: how long until something falls due, `Infinity` when nothing will. */
  readonly nextDueMs: number;
}

/**
 * The storage of one mailbox.
 *
 * - Every call is atomic, for all it is given.
 * - A delivery whose visibility timeout has passed is stale from that moment, whether or not anybody
 *   has taken the message since; settling a stale delivery changes nothing and answers `false`.
 * - A call that throws has changed nothing, or will be found out by the next one: the same settlement,
 *   asked for again, answers `true` for what the first one did before its answer was lost.
 */
export interface Engine<B> {
  /** What it can do; `mailboxCases` holds it to that. */
  readonly capabilities: Capabilities;
  /** What people call the engine, as `Redis`; the status of a group names it. */
  readonly label?: string | undefined;
  /**
   * Stores all entries, or throws and stores none. Answers for each entry whether it was stored: false
   * for a duplicate, an entry with `dedup` whose id is in the mailbox already.
   */
  push(entries: readonly Entry<B>[]): Maybe<readonly boolean[]>;
  /** Takes the oldest visible messages, at most `max`, for `visibilityMs`. Does not wait. */
  pull(max: number, visibilityMs: number): Maybe<Pulled<B>>;
  /** Removes messages. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /** Makes leases last until `visibilityMs` from now, or longer if they do already. */
  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): Maybe<readonly boolean[]>;
  /** Gives messages back, hidden for `delayMs`. Unless the attempt is spent, it is not counted. */
  retry(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    spendsAttempt: boolean,
  ): Maybe<readonly boolean[]>;
  /** Gives messages back to their place, taking the attempt back the first five times. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /**
   * Removes a message and stores `letter` with the dead letters, in one step. A letter is always
   * stored, also when one of the same id is there: ids may be used again.
   */
  bury(delivery: Delivery<B>, letter: B): Maybe<boolean>;
  /** Keeps progress with the message. */
  checkpoint(delivery: Delivery<B>, progress: B): Maybe<boolean>;
  /** The oldest messages, taken or not. */
  peek(max: number): Maybe<readonly Omit<Delivery<B>, "receipt">[]>;
  /** All messages, whatever their state. */
  count(): Maybe<number>;
  /** Deletes all messages and tells how many. */
  purge(): Maybe<number>;
  /**
   * Calls `listener` whenever messages may have become visible other than by the time passing. The
   * engine may watch only as long as somebody listens. What a remover answers
   * resolves when nothing is on its way any more to those who have left; it is soon, and never rejects.
   */
  onWake(listener: () => void): () => Maybe<void>;
  /** The same engine's storage for what failed for good. Asked for only once. */
  deadLetters(): Engine<B>;
  /** Lets go of what this storage holds open. */
  close(): Maybe<void>;
}

/** A message that was given back this often spends its attempt the next time. */
export const FREE_RELEASES = 5;

/**
 * Tells for each entry whether it is new: false for a duplicate of a stored message, or of an entry before
 * it. `isStored` tells whether a message with this chosen id is in the mailbox.
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
