import { backoffMs } from "../_backoff.ts";
import {
  checkCount,
  checkDuration,
  checkInterval,
  checkOneOf,
  checkUnique,
  show,
} from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { type Random, systemRandom } from "../random.ts";
import { defaultRuntime, type Runtime } from "../runtime.ts";
import {
  checkRunnable,
  DEFAULT_SHUTDOWN_TIMEOUT_MS,
  type Runnable,
  type RunOptions,
} from "./runnable.ts";
import { checkRecycle, type RecycleOptions } from "./recycle.ts";
import { checkResources, type Resource } from "./resources.ts";
import {
  DEFAULT_WATCHDOG_INTERVAL_MS,
  DEFAULT_WATCHDOG_THRESHOLD_MS,
  Watchdog,
  type WatchdogOptions,
} from "./watchdog.ts";

/** How often and how soon a failed loop is restarted. */
export interface RestartOptions {
  /** The group stops after more failures than this within `withinMs`. @default {5} */
  readonly maxRestarts?: number;
  /** The window for `maxRestarts`, in milliseconds. @default {60_000} */
  readonly withinMs?: number;
  /** The pause before the first restart. It doubles with each restart. @default {100} */
  readonly minBackoffMs?: number;
  /** The longest pause. @default {30_000} */
  readonly maxBackoffMs?: number;
}

/** Decides whether and when a failed loop is restarted. One per loop. */
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

  /** Returns the pause before a restart after a failure at `now`, or undefined for no restart. */
  nextPauseMs(now: number, random: Random): number | undefined {
    this.#failures = [...this.#failures.filter((at) => now - at < this.#withinMs), now];
    const recent = this.#failures.length;
    if (recent > this.#maxRestarts) return undefined;
    return backoffMs(recent, this.#minBackoffMs, this.#maxBackoffMs, random);
  }
}

/** What a group does when a loop fails: stop the others gracefully, restart it, or continue without it. */
export type FailurePolicy = "shutdown" | "restart" | "ignore";

/** Options of {@linkcode BaseGroup}. */
export interface BaseGroupOptions {
  /** How long a whole stop may take, in milliseconds. @default {30_000} */
  readonly shutdownTimeoutMs?: number;
  /**
   * How long the loops go on working after the group is no longer ready, so that load balancers notice
   * first. It is part of `shutdownTimeoutMs`, and Ctrl+C at the terminal skips it.
   *
   * @default {0}
   */
  readonly unreadyDelayMs?: number;
  /** What the group does when a loop fails. @default {"shutdown"} */
  readonly onFailure?: FailurePolicy;
  /** How often and how soon a loop is restarted with `onFailure: "restart"`. */
  readonly restart?: RestartOptions;
  /** When the group ends itself gracefully, so that a supervisor starts a new process. @default {never} */
  readonly recycle?: RecycleOptions;
  /** The watchdog ends the process after this long without a heartbeat; `false` is off. @default {720_000} */
  readonly watchdogThresholdMs?: number | false;
  /** How often the watchdog checks. @default {60_000} */
  readonly watchdogIntervalMs?: number;
  /**
   * What the loops need: resources, or anything with a name that can be disposed of, such as a mailbox. They
   * start in order before the loops and stop in reverse order after them.
   */
  readonly resources?: readonly (Resource | (AsyncDisposable & { readonly name: string }))[];
  /**
   * Provides signals, exit and servers. Tests pass a fake one.
   *
   * @default {the runtime of this process}
   */
  readonly runtime?: Runtime;
  /** The source of time and timers. @default {systemClock} */
  readonly clock?: Clock;
  /** The source of jitter. @default {systemRandom} */
  readonly random?: Random;
  /** Where the group logs problems and failures. @default {libraryLog} */
  readonly log?: Log;
}

/** Options of one run of a group. */
export interface GroupRunOptions {
  readonly loopOptions: RunOptions;
  /** Requests a stop when it aborts. */
  readonly signal?: AbortSignal | undefined;
  readonly installSignals: boolean;
  /** The process ends after this run: the run also waits for the other shutdown callbacks. */
  readonly endsProcess: boolean;
  /** Start before all other resources, and stop after them. */
  readonly firstResources: readonly Resource[];
}

/** The options of a group, checked and complete. */
export interface GroupConfig {
  readonly loops: readonly Runnable[];
  readonly shutdownTimeoutMs: number;
  readonly unreadyDelayMs: number;
  readonly onFailure: FailurePolicy;
  readonly restart: RestartOptions;
  readonly recycle: RecycleOptions | undefined;
  readonly watchdogThresholdMs: number | false;
  readonly watchdogIntervalMs: number;
  readonly resources: readonly Resource[];
  /** Called when a run begins, so that a group can be created without a runtime. */
  readonly runtime: () => Runtime;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** Checks the loops and options, and adds the defaults. */
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
    recycle: options.recycle && checkRecycle(options.recycle),
    watchdogThresholdMs: watchdogThresholdMs === undefined
      ? DEFAULT_WATCHDOG_THRESHOLD_MS
      : watchdogThresholdMs,
    watchdogIntervalMs: options.watchdogIntervalMs ?? DEFAULT_WATCHDOG_INTERVAL_MS,
    resources: checkResources(options.resources ?? []),
    runtime: () => runtime ?? defaultRuntime(),
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
    log: safeLog(options.log),
  };
  if (config.unreadyDelayMs > 0 && config.unreadyDelayMs >= config.shutdownTimeoutMs) {
    throw new RangeError(
      `Invalid unreadyDelayMs: expected less than shutdownTimeoutMs ` +
        `(${config.shutdownTimeoutMs}), of which it is a part, got ${config.unreadyDelayMs}`,
    );
  }
  // These check their own options: report an invalid one now, not during a run.
  new RestartBudget(config.restart);
  watchdogOf(config);
  return config;
}

/** Creates the watchdog of a group, unless it is off. */
export function watchdogOf(
  { watchdogThresholdMs, watchdogIntervalMs, clock, log }: GroupConfig,
  more: WatchdogOptions = {},
): Watchdog | undefined {
  if (watchdogThresholdMs === false) return undefined;
  const options = { thresholdMs: watchdogThresholdMs, intervalMs: watchdogIntervalMs, clock, log };
  return new Watchdog({ ...options, ...more });
}

/** Returns the watchdog as a resource. It needs no stop when the process ends, which ends its thread. */
export function watchdogResource(
  watchdog: Watchdog | undefined,
  endsProcess: boolean,
): readonly Resource[] {
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
