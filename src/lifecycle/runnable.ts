import { checkCount, checkDuration, checkOneOf, MAX_VISIBILITY_MS, show } from "../_checks.ts";
import type { CancelledError } from "../errors.ts";
import type { Heartbeat } from "./watchdog.ts";

/** Options of {@linkcode Runnable.run}. */
export interface RunOptions {
  /** End after this many iterations; a loop on a mailbox counts its receives. @default {Infinity} */
  readonly maxIterations?: number;
  /**
   * End when the mailbox is empty: a receive finds no message and no handler is running. Delayed
   * messages, and failed ones that wait for their next attempt, are not waited for. @default {false}
   */
  readonly untilEmpty?: boolean;
  /** How long a received message stays invisible to others. @default {300_000} */
  readonly visibilityTimeoutMs?: number;
  /** How long one receive waits for a message. @default {20_000} */
  readonly waitTimeMs?: number;
  /** Asks for a graceful stop when aborted. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode Runnable.shutdown}. */
export interface ShutdownOptions {
  /** How long to wait for work in flight. @default {30_000} */
  readonly timeoutMs?: number;
  /**
   * The caller calls `cancel` before the time is up, as a group does. Otherwise the loop cancels its own
   * work. @default {false}
   */
  readonly callerCancels?: boolean;
}

/** The default of {@linkcode ShutdownOptions.timeoutMs}. */
export const DEFAULT_SHUTDOWN_TIMEOUT_MS = 30_000;

/** A piece of work that has begun and not ended. */
export interface InFlight {
  /** The message, request or step it is about. */
  readonly id: string;
  /** Milliseconds since it began. */
  readonly ageMs: number;
}

/**
 * What became of the messages of a run. Every received message ends in exactly one of the other
 * columns, so `received` is their sum once the run has stopped.
 */
export interface Figures {
  /** Handed over by the mailbox. */
  readonly received: number;
  /** Done, and removed for good. */
  readonly acknowledged: number;
  /** Given back untouched. */
  readonly released: number;
  /** Failed, and back in the queue for another attempt. */
  readonly nacked: number;
  /** Failed for good, and kept with the dead letters. */
  readonly deadLettered: number;
  /** Not settled: the mailbox delivers it again when its lease ends. While running: in flight. */
  readonly leftToExpire: number;
}

/** The figures of a run that received nothing. */
export const NO_FIGURES: Figures = {
  received: 0,
  acknowledged: 0,
  released: 0,
  nacked: 0,
  deadLettered: 0,
  leftToExpire: 0,
};

/** Adds up the figures of several loops. */
export function sumFigures(all: Iterable<Figures>): Figures {
  const sum = { ...NO_FIGURES };
  for (const figures of all) {
    for (const key of Object.keys(sum) as (keyof Figures)[]) sum[key] += figures[key];
  }
  return sum;
}

/** True when every received message is accounted for. */
export function isBalanced(figures: Figures): boolean {
  const { received, ...settled } = figures;
  return received === Object.values(settled).reduce((sum, count) => sum + count, 0);
}

/**
 * Whatever runs until it is told to stop. A {@linkcode LoopGroup} runs any number of them together.
 *
 * The first five members are the contract. The others are offers: a group uses those that are there.
 */
export interface Runnable extends AsyncDisposable {
  /** Unique in a group; reports and health name the loop by it. */
  readonly name: string;
  /** True from the call of `run` until it settles. */
  readonly running: boolean;
  /** Signs of life for the watchdog. */
  readonly heartbeat?: Heartbeat;
  /** Works until it is done or told to stop. Rejects when the loop failed. */
  run(options?: RunOptions): Promise<void>;
  /** Asks for a graceful stop and waits: true when stopped, false when the time ran out first. */
  shutdown(options?: ShutdownOptions): Promise<boolean>;

  /** Lower ones stop first, equal ones together. @default {0} */
  readonly priority?: number | undefined;
  /** A bound of its own, within the group's. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** False while it cannot take work, as when its engine is away. */
  readonly ready?: boolean;
  /** What it is working on now. */
  readonly inFlight?: readonly InFlight[];
  /** What became of the messages it received. */
  readonly figures?: Figures;
  /**
   * What its last stop left undone although the loop has ended, a line each. The report of the group names
   * it, and the outcome is `timed_out`.
   */
  readonly unfinished?: readonly string[];
  /** The mailbox that it receives from, for the status of the group. */
  readonly mailbox?: { readonly name: string; approximateCount(): Promise<number> } | undefined;
  /** Ends work in flight now instead of at the deadline. */
  cancel?(reason: CancelledError): void;
  /** Takes no new work until `resume`; resolves when nothing is in flight. */
  drain?(): Promise<void>;
  /** Takes work again after `drain`. */
  resume?(): void;
  /** Gives back what still runs, because the process ends in a moment. */
  abandon?(): Promise<void>;
}

const REQUIRED = { name: "string", running: "boolean", run: "function", shutdown: "function" };

/** Refuses what a group could not run, and says which part is missing. */
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
  checkPriority(candidate.priority ?? 0);
  checkDuration("shutdownTimeoutMs", candidate.shutdownTimeoutMs ?? Infinity);
  return candidate;
}

/** Refuses a priority that cannot be ordered. */
export function checkPriority(priority: number): number {
  if (!Number.isFinite(priority)) {
    throw new RangeError(`Invalid priority: expected a finite number, got ${show(priority)}`);
  }
  return priority;
}

/** Refuses run options that make no sense. */
export function checkRunOptions(options: RunOptions): void {
  checkCount("maxIterations", options.maxIterations ?? Infinity);
  checkOneOf("untilEmpty", options.untilEmpty ?? false, [true, false]);
  checkDuration("visibilityTimeoutMs", options.visibilityTimeoutMs ?? 0, MAX_VISIBILITY_MS);
  checkDuration("waitTimeMs", options.waitTimeMs ?? 0);
}
