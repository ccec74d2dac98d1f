import { checkCount, checkDuration, checkOneOf, MAX_VISIBILITY_MS, show } from "../_checks.ts";
import type { CancelledError } from "../errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Figures } from "./figures.ts";
import type { Heartbeat } from "./heartbeat.ts";

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
   * What its last stop left undone although it has ended, a line each. The group's report names it, and the
   * outcome is `timed_out`.
   */
  readonly unfinished?: readonly string[];
  /** What it works off. */
  readonly mailbox?: Pick<Mailbox<never>, "name" | "approximateCount"> | undefined;
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
