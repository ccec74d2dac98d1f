/**
 * What `/status` answers and the live page shows: everything about a group, as plain data. Nothing in it
 * is secret: what handlers throw may be, so `/dead-letters` tells it only with the token. Of errors it has
 * those of the engines, whose messages carry no passwords.
 *
 * @module
 */

import type { LeaseCounters } from "../lease/lease_extender.ts";
import type { MessageCounts } from "../lifecycle/runnable.ts";
import type { HealthSnapshot, LoopHealth } from "../lifecycle/health_snapshot.ts";
import type { InFlight } from "../lifecycle/runnable.ts";

/** The status of one loop. */
export interface LoopStatus extends LoopHealth {
  /** The oldest work in flight; `inFlight` counts all of it. */
  readonly work: readonly InFlight[];
  /** The counts of its messages by outcome, where it has any. */
  readonly counts?: MessageCounts;
  /** Acknowledged messages per second, over the last few seconds. */
  readonly perSecond?: number;
  /** What keeping its leases came to. */
  readonly leases?: LeaseCounters;
  /** The name of the mailbox it works off. */
  readonly mailbox?: string;
}

/** The status of one mailbox. */
export interface MailboxStatus {
  /** What logs, loops and metrics call it. */
  readonly name: string;
  /** What people call its engine, as `Redis`, where that is known. */
  readonly engine?: string;
  /** False while its engine is unreachable; then no count is known. */
  readonly reachable: boolean;
  /** Why it cannot be asked, or what it cannot do although it answers. */
  readonly error?: string;
  /** The number of messages in any state. */
  readonly messages?: number;
  /** Messages that failed for good, where it keeps them. */
  readonly deadLetters?: number;
  /** The oldest of them, without what their errors say; not where the engine shows none. */
  readonly letters?: readonly LetterStatus[];
}

/** The public part of a dead letter. */
export interface LetterStatus {
  /** That of the message. */
  readonly id: string;
  /** Why it was buried, as `max_deliveries`. */
  readonly reason: string;
  /** How often it was delivered before. */
  readonly deliveryCount: number;
  /** Milliseconds since the Unix epoch. */
  readonly deadAt: number;
}

/** An agent of the board that the process takes part in. */
export interface AgentStatusLine {
  /** Unique on its board. */
  readonly agentId: string;
  /** Its state, or why there is none to tell: `unknown`, `stale`, `corrupt`. */
  readonly status: string;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt?: number;
}

/** All loops together. */
export interface Totals {
  /** How many there are. */
  readonly loops: number;
  /** How many of them can take work, have ended well, or need none. */
  readonly ready: number;
  /** The number of pieces of work in flight. */
  readonly inFlight: number;
  /** The age of the oldest work in flight. */
  readonly oldestMs: number;
  /** The counts of all messages by outcome. */
  readonly counts: MessageCounts;
  /** What they acknowledged a second, once that is known. */
  readonly perSecond?: number;
}

/** How many were left out of an event, so that it stays small. Those in trouble are never the first to go. */
export interface LeftOut {
  /** Loops that the event does not name. */
  readonly loops: number;
  /** Mailboxes that the event does not name. */
  readonly mailboxes: number;
  /** Agents that the event does not name. */
  readonly agents: number;
}

/** Everything about a group. */
export interface Status extends HealthSnapshot {
  /** When it was looked at, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** The runtime it runs on, where that is known. */
  readonly runtime?: string;
  /** Whether a token opens the controls: pause, resume and redrive. */
  readonly controls: boolean;
  /** All loops together, those that were left out included. */
  readonly totals: Totals;
  /** In the order of the group. */
  readonly loops: readonly LoopStatus[];
  /** Those of the loops and those that the options name, each once. */
  readonly mailboxes: readonly MailboxStatus[];
  /** Agents and peers, where there is a board: as it said last. */
  readonly agents?: readonly AgentStatusLine[];
  /** False while the board cannot be asked. */
  readonly boardReachable?: boolean;
  /** What an event leaves out; `/status` leaves nothing out. */
  readonly leftOut?: LeftOut;
}
