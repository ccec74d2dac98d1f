import { backoffMs } from "../_backoff.ts";
import { checkCount, checkDuration, checkInterval, checkOneOf, show } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { defaultRuntime, type Runtime } from "../runtime.ts";
import { checkRunnable, DEFAULT_SHUTDOWN_TIMEOUT_MS, type Runnable } from "./runnable.ts";
import type { Support } from "./resources.ts";
import {
  DEFAULT_WATCHDOG_INTERVAL_MS,
  DEFAULT_WATCHDOG_THRESHOLD_MS,
  Watchdog,
  type WatchdogOptions,
} from "./watchdog.ts";

/** How a failed loop is run again. */
export interface RestartOptions {
  /** More failures than this within `withinMs` and the group gives up. @default {5} */
  readonly maxRestarts?: number;
  /** The window for `maxRestarts`. @default {60_000} */
  readonly withinMs?: number;
  /** The pause before the first restart; it doubles with each. @default {100} */
  readonly minBackoffMs?: number;
  /** The longest pause. @default {30_000} */
  readonly maxBackoffMs?: number;
}

/** Decides whether and when a loop that failed is run again. One per loop. */
export class RestartBudget {
  readonly #maxRestarts: number;
  readonly #withinMs: number;
  readonly #minBackoffMs: number;
  readonly #maxBackoffMs: number;
  #failures: number[] = [];

  constructor(options: RestartOptions = {}) {
    this.#maxRestarts = checkCount("maxRestarts", options.maxRestarts ?? 5);
    this.#withinMs = checkInterval("withinMs", options.withinMs ?? 60_000);
    this.#minBackoffMs = checkInterval("minBackoffMs", options.minBackoffMs ?? 100);
    this.#maxBackoffMs = checkInterval("maxBackoffMs", options.maxBackoffMs ?? 30_000);
  }

  /** The pause before the next run after a failure at `now`, or undefined when it is enough. */
  nextPauseMs(now: number, random: () => number = Math.random): number | undefined {
    this.#failures = [...this.#failures.filter((at) => now - at < this.#withinMs), now];
    const recent = this.#failures.length;
    if (recent > this.#maxRestarts) return undefined;
    return backoffMs(recent, this.#minBackoffMs, this.#maxBackoffMs, random);
  }
}

/** What a group does when a loop fails: stop the others well, run it again, or carry on without. */
export type FailurePolicy = "shutdown" | "restart" | "ignore";

/** Options of {@linkcode BaseGroup}. */
export interface BaseGroupOptions {
  /** How long a stop may take from its first moment to its last. @default {30_000} */
  readonly shutdownTimeoutMs?: number;
  /**
   * How long to go on working after readiness has turned red, so that routers notice first. It is part
   * of `shutdownTimeoutMs`, and a Ctrl+C at the terminal skips it.
   *
   * @default {0}
   */
  readonly unreadyDelayMs?: number;
  /** What becomes of the others when one loop fails. @default {"shutdown"} */
  readonly onFailure?: FailurePolicy;
  /** How often and how soon, with `onFailure: "restart"`. */
  readonly restart?: RestartOptions;
  /** Silence for longer than this ends the process; `null` switches it off. @default {720_000} */
  readonly watchdogThresholdMs?: number | null;
  /** How often the watchdog looks. @default {60_000} */
  readonly watchdogIntervalMs?: number;
  /** Started in order before the loops, stopped in reverse order after them. */
  readonly support?: readonly Support[];
  /**
   * Signals, exit and servers come from it; a fake one for tests.
   *
   * @default {the one this program runs on}
   */
  readonly runtime?: Runtime;
  /** What the deadline is measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of the phases, and of all that goes wrong. @default {libraryLog} */
  readonly log?: Log;
}

/** The options of a group, checked and complete. */
export interface GroupConfig {
  readonly loops: readonly Runnable[];
  readonly shutdownTimeoutMs: number;
  readonly unreadyDelayMs: number;
  readonly onFailure: FailurePolicy;
  readonly restart: RestartOptions;
  readonly watchdogThresholdMs: number | null;
  readonly watchdogIntervalMs: number;
  readonly support: readonly Support[];
  /** Asked for when a run begins, so that a group can be made anywhere. */
  readonly runtime: () => Runtime;
  readonly clock: Clock;
  readonly log: Log;
}

/** Checks everything before anything starts. */
export function groupConfig(loops: readonly Runnable[], options: BaseGroupOptions): GroupConfig {
  const { runtime, watchdogThresholdMs } = options;
  const config: GroupConfig = {
    loops: checkLoops(loops),
    shutdownTimeoutMs: checkDuration(
      "shutdownTimeoutMs",
      options.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS,
    ),
    unreadyDelayMs: checkDuration("unreadyDelayMs", options.unreadyDelayMs ?? 0),
    onFailure: checkOneOf("onFailure", options.onFailure ?? "shutdown", [
      "shutdown",
      "restart",
      "ignore",
    ]),
    restart: options.restart ?? {},
    watchdogThresholdMs: watchdogThresholdMs === undefined
      ? DEFAULT_WATCHDOG_THRESHOLD_MS
      : watchdogThresholdMs,
    watchdogIntervalMs: options.watchdogIntervalMs ?? DEFAULT_WATCHDOG_INTERVAL_MS,
    support: checkSupport(options.support ?? []),
    runtime: () => runtime ?? defaultRuntime(),
    clock: options.clock ?? systemClock,
    log: safeLog(options.log),
  };
  if (config.unreadyDelayMs > 0 && config.unreadyDelayMs >= config.shutdownTimeoutMs) {
    throw new RangeError(
      `Invalid unreadyDelayMs: expected less than shutdownTimeoutMs ` +
        `(${config.shutdownTimeoutMs}), of which it is a part, got ${config.unreadyDelayMs}`,
    );
  }
  // These check their own options; better now than in the middle of a run.
  new RestartBudget(config.restart);
  watchdogOf(config);
  return config;
}

/** The watchdog of a group, where it has one. */
export function watchdogOf(
  { watchdogThresholdMs, watchdogIntervalMs, clock, log }: GroupConfig,
  more: WatchdogOptions = {},
): Watchdog | undefined {
  if (watchdogThresholdMs === null) return undefined;
  const options = { thresholdMs: watchdogThresholdMs, intervalMs: watchdogIntervalMs, clock, log };
  return new Watchdog({ ...options, ...more });
}

/** A process that ends takes the watching thread along, sooner than it could be ended before. */
export function watchdogSupport(
  watchdog: Watchdog | undefined,
  endsProcess: boolean,
): readonly Support[] {
  if (watchdog === undefined) return [];
  if (!endsProcess) return [watchdog];
  return [{ name: watchdog.name, start: () => watchdog.start(), stop() {} }];
}

function checkLoops(loops: readonly Runnable[]): readonly Runnable[] {
  if (!Array.isArray(loops)) {
    throw new TypeError(`Invalid loops: expected an array of Runnables, got ${show(loops)}`);
  }
  const checked = loops.map((loop, index) => checkRunnable(loop, `loops[${index}]`));
  checkUnique("loop", checked);
  return checked;
}

function checkSupport(support: readonly Support[]): readonly Support[] {
  for (const [index, { name, stop }] of support.entries()) {
    if (typeof name === "string" && typeof stop === "function") continue;
    throw new TypeError(`support[${index}] needs a \`name\` and a \`stop\` function`);
  }
  checkUnique("support", support);
  return [...support];
}

function checkUnique(what: string, entries: readonly { readonly name: string }[]): void {
  const names = new Set<string>();
  for (const { name } of entries) {
    if (names.has(name)) {
      throw new TypeError(`Duplicate ${what} name ${show(name)}: each needs a name of its own`);
    }
    names.add(name);
  }
}
