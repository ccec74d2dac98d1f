/**
 * The interface between a mailbox and its storage. An engine stores and delivers. What all mailboxes share
 * (checks, waiting, settling once, replies, dead letters) is in `EngineMailbox`.
 *
 * @module
 */

/** What an engine can do. */
export interface Capabilities {
  /** An expired receipt handle cannot acknowledge, nack or extend. */
  readonly fencedAck: boolean;
  /** Each receive may choose its own visibility timeout. */
  readonly perReceiveVisibility: boolean;
  /** A release does not spend a delivery attempt. */
  readonly restoresAttempts: boolean;
  /** Messages are received in the order they were sent, also after a release. */
  readonly fifo: boolean;
  /** A message can be sent with a delay. */
  readonly delay: boolean;
  /** A message with the id of a stored message is not stored again. */
  readonly dedup: boolean;
  /** `approximateCount` is exact. */
  readonly exactCount: boolean;
}

/** The capabilities of an engine without limits. */
export const FULL_CAPABILITIES: Capabilities = {
  fencedAck: true,
  perReceiveVisibility: true,
  restoresAttempts: true,
  fifo: true,
  delay: true,
  dedup: true,
  exactCount: true,
};

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
  /** The checkpoint that the first delivery gets. */
  readonly checkpoint?: B | undefined;
}

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
}

/** A delivered message. The engine gets the same object back when it is settled. */
export interface Delivery<B> extends StoredMessage<B> {
  /** Unique for each delivery. */
  readonly receiptHandle: string;
}

/** The result of a receive. */
export interface Received<B> {
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
  /** What the engine cannot do at the moment; undefined while it can do everything. */
  readonly trouble?: string | undefined;
  /**
   * Stores all entries, or throws and stores none. Returns for each entry whether it was stored: false for
   * a duplicate, that is, an entry with `dedup` whose id is in the mailbox.
   */
  send(entries: readonly Entry<B>[]): Maybe<readonly boolean[]>;
  /** Delivers the oldest visible messages, at most `max`, and hides them for `visibilityMs`. Does not wait. */
  receive(max: number, visibilityMs: number): Maybe<Received<B>>;
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
  /** Returns messages to their position. The first five releases do not count as attempts. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]>;
  /**
   * Removes a message and stores `letter` in the dead letters, in one step. Stores it also when the dead
   * letters have one with the same id: ids can be used again.
   */
  deadLetter(delivery: Delivery<B>, letter: Entry<B>): Maybe<boolean>;
  /** Saves a checkpoint with the message. */
  checkpoint(delivery: Delivery<B>, checkpoint: B): Maybe<boolean>;
  /** Returns the oldest messages, whatever their state. */
  peek(max: number): Maybe<readonly StoredMessage<B>[]>;
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
  /** Returns the storage of the dead letters. Called once. Its `close` is never called. */
  deadLetters(): Engine<B>;
  /** Tells how another thread can extend the leases; undefined where it cannot. */
  offThread?(): OffThreadPlan | undefined;
  /** Closes the connections and files of the mailbox and its dead letters, after their pending calls. */
  close(): Maybe<void>;
}

/**
 * How another thread extends the leases of an engine, where a handler that blocks the event loop does not
 * stop it. Only for engines that refuse stale receipt handles: the threads do not wait for one another.
 */
export interface OffThreadPlan {
  /** The name of an engine of this package, or the URL of an {@linkcode OffThreadModule}. */
  readonly engine: string;
  /** What it is opened with. It is copied to the other thread. */
  readonly options: unknown;
}

/** The module that another thread loads. */
export interface OffThreadModule {
  /** Called on the other thread, with the options of the plan. */
  openExtender(options: unknown): Promise<OffThreadExtender>;
}

/** Extends leases by their receipt handles, over a connection of its own. */
export interface OffThreadExtender {
  /** Extends leases to `visibilityMs` from now. Returns for each whether its handle was valid. */
  extend(receiptHandles: readonly string[], visibilityMs: number): Promise<readonly boolean[]>;
  /** Closes its connection. */
  close(): Promise<void>;
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
  let chosen: Set<string> | undefined;
  return entries.map(({ id, dedup }) => {
    if (!dedup) return true;
    if (chosen?.has(id) || isStored(id)) return false;
    (chosen ??= new Set()).add(id);
    return true;
  });
}
