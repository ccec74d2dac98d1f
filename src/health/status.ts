/**
 * The status of a group as plain data: the body of `/status`, and what the live page shows. It contains no
 * secrets. Errors of handlers may contain some, so only `/dead-letters` returns them, with the token. Errors
 * of engines contain no passwords.
 *
 * @module
 */

import type { CronStatus } from "../cron/slot.ts";
import type { LeaseCounters } from "../lease/lease_extender.ts";
import type { HealthSnapshot, LoopHealth } from "../lifecycle/health_snapshot.ts";
import type {
  InFlight,
  MessageCounts,
  MessageInFlight,
  MessagesAhead,
} from "../lifecycle/runnable.ts";
import type { MailboxStats } from "../mailbox/mailbox.ts";

/** The status of one loop. */
export interface LoopStatus extends LoopHealth {
  /** The oldest work in flight; `inFlight` counts all of it. */
  readonly work: readonly InFlight[];
  /**
   * How far the messages are whose handlers run, where the loop has messages: at most 10, the
   * longest-running first.
   */
  readonly messages?: readonly MessageInFlight[];
  /** The messages that wait for a handler, if the loop receives messages ahead. */
  readonly ahead?: MessagesAhead;
  /** The counts of its messages by outcome, where it has any. */
  readonly counts?: MessageCounts;
  /** Acknowledged messages per second, over the last few seconds. */
  readonly perSecond?: number;
  /** The counts of its lease extensions. */
  readonly leases?: LeaseCounters;
  /** The name of its mailbox. */
  readonly mailbox?: string;
  /** The slots of a cron loop. */
  readonly cron?: CronStatus;
}

export type { CronStatus } from "../cron/slot.ts";

/** The process that answers. */
export interface ProcessStatus {
  /** Unique for every health app: a process finds itself by it among the replicas. */
  readonly id: string;
  /** The name of the process: the option `name`, or the host name. */
  readonly name: string;
  /** The process id, where the runtime tells it. */
  readonly pid?: number;
  /** When the health app was created, in milliseconds since the Unix epoch. With `healthPort`: the start. */
  readonly startedAt: number;
  /** The version of the application: the option `version`. */
  readonly version?: string;
  /** The version of this package. */
  readonly lastcall: string;
}

/** Another process that runs the same program. */
export interface ReplicaStatus
  extends Partial<Pick<Status, "phase" | "ready" | "live" | "paused" | "totals" | "stop" | "end">> {
  /** The address of its health app, without credentials. */
  readonly url: string;
  /** False when it did not answer the last query. */
  readonly reachable: boolean;
  /** Why it did not answer. */
  readonly error?: string;
  /** The process that answered. */
  readonly process?: ProcessStatus;
}

/**
 * The counts of the last hour, one sample every `everyMs`, the oldest first. All lists have the same length. A
 * sample is null where the engine did not answer, and before the first sample of a mailbox.
 */
export interface History {
  /** The time between two samples, in milliseconds. */
  readonly everyMs: number;
  /** When the last sample was taken, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** Acknowledged messages per second, over all loops. */
  readonly perSecond: readonly (number | null)[];
  /** The counts by mailbox. */
  readonly mailboxes: Readonly<Record<string, MailboxHistory>>;
}

/** The counts of one mailbox over the last hour. */
export interface MailboxHistory {
  /** Messages that wait. */
  readonly waiting: readonly (number | null)[];
  /** Messages in flight. */
  readonly inFlight: readonly (number | null)[];
}

/** The status of one mailbox. Counts that its engine cannot tell are missing. */
export interface MailboxStatus extends Partial<MailboxStats> {
  /** The name in logs and metrics. */
  readonly name: string;
  /** The name of its engine, as in `Redis`, where it is known. */
  readonly engine?: string;
  /** False while its engine is unreachable. The counts are missing then. */
  readonly reachable: boolean;
  /** Why the engine is unreachable, or what it cannot do although it is reachable. */
  readonly error?: string;
  /** The number of messages in any state. */
  readonly messages?: number;
  /**
   * True when the engine notices workers that died, so that their messages are delivered again within seconds.
   * False when these messages return only after their visibility timeout. An engine may learn it with its first
   * receive.
   */
  readonly ownerDetection?: boolean;
  /** The oldest dead letters, without their errors; missing where the engine cannot peek. */
  readonly letters?: readonly LetterStatus[];
}

/** The public part of a dead letter. */
export interface LetterStatus {
  /** The id of the message. */
  readonly id: string;
  /** Why it was dead-lettered, as in `max_deliveries`. */
  readonly reason: string;
  /** How often it was delivered. */
  readonly deliveryCount: number;
  /** When it was dead-lettered, in milliseconds since the Unix epoch. */
  readonly deadAt: number;
}

/** The status of one agent on the board. */
export interface AgentStatusLine {
  /** Unique on its board. */
  readonly agentId: string;
  /** Its state, or why it has none: `unknown`, `stale` or `corrupt`. */
  readonly status: string;
  /** When its state changed, in milliseconds since the Unix epoch. */
  readonly updatedAt?: number;
}

/** The sums over all loops. */
export interface Totals {
  /** The number of loops. */
  readonly loops: number;
  /** The number of loops that are ready. */
  readonly ready: number;
  /** The number of entries of work in flight. */
  readonly inFlight: number;
  /** The age of the oldest work in flight, in milliseconds. */
  readonly oldestMs: number;
  /** The counts of all messages by outcome. */
  readonly counts: MessageCounts;
  /** Acknowledged messages per second, once they are known. */
  readonly perSecond?: number;
}

/** The numbers of entries that an event leaves out to stay small. Failing entries are left out last. */
export interface LeftOut {
  /** Loops that the event does not name. */
  readonly loops: number;
  /** Mailboxes that the event does not name. */
  readonly mailboxes: number;
  /** Agents that the event does not name. */
  readonly agents: number;
}

/** The status of a group. */
export interface Status extends HealthSnapshot {
  /** The time of this status, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** The name of the runtime, where it is known. */
  readonly runtime?: string;
  /** The process that answers. */
  readonly process?: ProcessStatus;
  /** The other processes of the options `replicas` and `board`: their last answers. */
  readonly replicas?: readonly ReplicaStatus[];
  /** True when the app has a token for the controls: pause, resume, messages and dead letters. */
  readonly controls: boolean;
  /** The sums over all loops, also over those that an event leaves out. */
  readonly totals: Totals;
  /** The loops in the order of the group. */
  readonly loops: readonly LoopStatus[];
  /** The mailboxes of the loops and of the options, each once. */
  readonly mailboxes: readonly MailboxStatus[];
  /** The agents on the board, where there is one: its last answer. */
  readonly agents?: readonly AgentStatusLine[];
  /** False while the board is unreachable. */
  readonly boardReachable?: boolean;
  /** Set in events. `/status` leaves nothing out. */
  readonly leftOut?: LeftOut;
}
