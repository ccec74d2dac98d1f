import { checkCount, checkDuration, checkOneOf, MAX_VISIBILITY_MS, show } from "../_checks.ts";
import type { CancelledError } from "../errors.ts";
import type { Heartbeat } from "./watchdog.ts";

/** Options of {@linkcode Runnable.run}. */
export interface RunOptions {
  /** Ends the run after this many iterations; a `MailboxLoop` counts its receives. @default {Infinity} */
  readonly maxIterations?: number;
  /**
   * Ends the run of each loop after it has settled this many messages: acknowledged, nacked or
   * dead-lettered them. The loop never receives more than are left. @default {Infinity}
   */
  readonly maxMessages?: number;
  /**
   * Ends the run when the mailbox is empty: a receive returns no message and no handler is running. The
   * run does not wait for delayed messages or for failed ones with a later attempt. @default {false}
   */
  readonly untilEmpty?: boolean;
  /** How long received messages stay invisible to other workers. @default {that of each loop} */
  readonly visibilityTimeoutMs?: number;
  /** How long one receive waits for messages. @default {that of each loop} */
  readonly waitTimeMs?: number;
  /** Requests a graceful stop when it aborts. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode Runnable.shutdown}. */
export interface ShutdownOptions {
  /** How long to wait for work in flight. @default {30_000} */
  readonly timeoutMs?: number;
  /**
   * True when the caller itself calls `cancel` before the time is up, as a group does. Otherwise the loop
   * cancels its own work. @default {false}
   */
  readonly callerCancels?: boolean;
}

/** The default of {@linkcode ShutdownOptions.timeoutMs}. */
export const DEFAULT_SHUTDOWN_TIMEOUT_MS = 30_000;

/** A piece of work that has begun and not ended. */
export interface InFlight {
  /** The message, request or step. */
  readonly id: string;
  /** Milliseconds since it began. */
  readonly ageMs: number;
}

/** A message whose handler runs, and how far it is. It has no part of the body. */
export interface MessageInFlight {
  /** The id of the message. */
  readonly id: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Milliseconds since its handler was called. */
  readonly runningMs: number;
  /** The number of steps that this delivery and earlier ones have finished. */
  readonly finishedSteps: number;
  /** The names of the finished steps in the order of their calls; of the last 10 if there are more. */
  readonly steps: readonly string[];
}

/** The messages that a loop has received ahead of its free handlers. */
export interface MessagesAhead {
  /** How many messages may currently wait for a handler. */
  readonly most: number;
  /** How many wait. */
  readonly waiting: number;
}

/**
 * The counts of the messages of a run by outcome. Every received message ends in exactly one of the other
 * counts, so `received` is their sum once the run has stopped.
 */
export interface MessageCounts {
  /** Received from the mailbox. */
  readonly received: number;
  /** Finished and deleted. */
  readonly acknowledged: number;
  /** Not started, and released to the mailbox. */
  readonly released: number;
  /** Failed, and scheduled for another attempt. */
  readonly nacked: number;
  /** Failed for good, and moved to the dead letters. */
  readonly deadLettered: number;
  /** Deleted by `cancel` of the mailbox while the loop held them. */
  readonly cancelled: number;
  /** Not settled: delivered again when the lease expires. While the run goes on: in flight. */
  readonly leftToExpire: number;
}

/** The counts of a run that received no message. */
export const NO_COUNTS: MessageCounts = {
  received: 0,
  acknowledged: 0,
  released: 0,
  nacked: 0,
  deadLettered: 0,
  cancelled: 0,
  leftToExpire: 0,
};

/** Adds up the counts of several loops. */
export function sumCounts(all: Iterable<MessageCounts>): MessageCounts {
  const sum = { ...NO_COUNTS };
  for (const counts of all) {
    for (const key of Object.keys(sum) as (keyof MessageCounts)[]) sum[key] += counts[key];
  }
  return sum;
}

/** Returns true when every received message is accounted for. */
export function isBalanced(counts: MessageCounts): boolean {
  const { received, ...settled } = counts;
  return received === Object.values(settled).reduce((sum, count) => sum + count, 0);
}

/**
 * Something that runs until it is stopped. A {@linkcode LoopGroup} runs any number of them together.
 *
 * The first five members are required. The others are optional: a group uses those that exist.
 */
export interface Runnable extends AsyncDisposable {
  /** The name in reports and health, unique in a group. */
  readonly name: string;
  /** True from the call of `run` until it settles. */
  readonly running: boolean;
  /** The heartbeat that the watchdog checks. */
  readonly heartbeat?: Heartbeat;
  /** Runs until the work is done or a stop is requested. Rejects when the loop fails. */
  run(options?: RunOptions): Promise<void>;
  /** Requests a graceful stop and waits. Returns false when the time ran out first. */
  shutdown(options?: ShutdownOptions): Promise<boolean>;

  /** Loops with a lower stopOrder stop first, equal ones together. @default {0} */
  readonly stopOrder?: number | undefined;
  /** The timeout of its stop, within that of its group. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** False while the loop cannot take work, for example while its engine is unreachable. */
  readonly ready?: boolean;
  /** The work in flight. */
  readonly inFlight?: readonly InFlight[];
  /** How far the messages are whose handlers run: at most 10, the longest-running first. */
  readonly messagesInFlight?: readonly MessageInFlight[] | undefined;
  /** The messages that wait for a handler, if the loop receives messages ahead. */
  readonly ahead?: MessagesAhead | undefined;
  /** The counts of its messages by outcome. */
  readonly counts?: MessageCounts;
  /**
   * What the last stop left unfinished although the loop has ended, one line each. The report of the group
   * lists it, and the outcome is `timed_out`.
   */
  readonly unfinished?: readonly string[];
  /** The mailbox that the loop receives from, for the status of the group. */
  readonly mailbox?: { readonly name: string; approximateCount(): Promise<number> } | undefined;
  /** Cancels work in flight now instead of near the deadline. */
  cancel?(reason: CancelledError): void;
  /** Takes no new work until `resume`. Resolves when no work is in flight. */
  pause?(): Promise<void>;
  /** Takes work again after `pause`. */
  resume?(): void;
  /** Releases the messages of handlers that still run, because the process is about to end. */
  abandon?(): Promise<void>;
}

const REQUIRED = { name: "string", running: "boolean", run: "function", shutdown: "function" };

/** Returns `value` if it is a Runnable. The `TypeError` otherwise names the wrong member. */
export function checkRunnable(value: unknown, where: string): Runnable {
  const candidate = Object(value);
  for (const [member, type] of Object.entries(REQUIRED)) {
    const found: string = typeof candidate[member];
    if (found !== type) {
      throw new TypeError(
        `${where} is not a Runnable: expected \`${member}\` to be a ${type}, got ` +
          `${show(candidate[member])} in ${show(value)}`,
      );
    }
  }
  if (candidate.name === "") throw new TypeError(`${where} has an empty name: give it one`);
  checkStopOrder(candidate.stopOrder ?? 0);
  checkDuration("shutdownTimeoutMs", candidate.shutdownTimeoutMs ?? Infinity);
  return candidate;
}

/** Returns `stopOrder` if it is finite. */
export function checkStopOrder(stopOrder: number): number {
  if (!Number.isFinite(stopOrder)) {
    throw new RangeError(`Invalid stopOrder: expected a finite number, got ${show(stopOrder)}`);
  }
  return stopOrder;
}

/** Throws for invalid run options. */
export function checkRunOptions(options: RunOptions): void {
  checkCount("maxIterations", options.maxIterations ?? Infinity);
  checkCount("maxMessages", options.maxMessages ?? Infinity);
  checkOneOf("untilEmpty", options.untilEmpty ?? false, [true, false]);
  checkDuration("visibilityTimeoutMs", options.visibilityTimeoutMs ?? 0, MAX_VISIBILITY_MS);
  checkDuration("waitTimeMs", options.waitTimeMs ?? 0);
}
