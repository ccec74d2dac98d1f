import { checkDuration, show } from "../_checks.ts";
import { type Deferred, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { CancelledError, TerminatingError } from "../errors.ts";
import { type Random, systemRandom } from "../random.ts";
import { endsWithin } from "./deadline.ts";
import { isInside, runInside } from "./_inside.ts";
import { isInspected } from "./process_share.ts";
import {
  checkRunOptions,
  checkStopOrder,
  DEFAULT_SHUTDOWN_TIMEOUT_MS,
  type InFlight,
  type Runnable,
  type RunOptions,
  type ShutdownOptions,
} from "./runnable.ts";
import { Heartbeat } from "./watchdog.ts";

/** Options that every loop takes. */
export interface LoopOptions {
  /** Loops with a lower stopOrder stop first, equal ones together. @default {0} */
  readonly stopOrder?: number;
  /** The timeout of its stop, within that of its group. @default {the group's; 30_000 without a group} */
  readonly shutdownTimeoutMs?: number;
  /** The source of time and timers. @default {systemClock} */
  readonly clock?: Clock;
  /** The source of jitter. @default {systemRandom} */
  readonly random?: Random;
}

/** What the `work` of a loop gets from the loop. */
export interface LoopContext {
  /** Aborts when a stop begins: take no new work, and end at the next safe point. */
  readonly stopping: AbortSignal;
  /** Aborts when work in flight must end now, with a {@linkcode CancelledError} as its reason. */
  readonly signal: AbortSignal;
  /** Records a heartbeat, so that the watchdog does not end the process during long work. */
  readonly beat: () => void;
}

/** A piece of work in flight. */
export interface Work {
  /** Its name in reports. */
  readonly id: string;
  /** When it began, in milliseconds of the monotonic clock. */
  readonly since: number;
}

/** Shared, because creating an error for each of many loops is most of the cost of a stop. */
const STOPPING = new TerminatingError("The loop is stopping");

/** One call of `run`, from its start to its end. */
class Run {
  readonly stopping = new AbortController();
  readonly cancelling = new AbortController();
  readonly ended: Deferred<void> = deferred();
}

/**
 * Implements starting and stopping for every loop. A subclass implements only `work`.
 *
 * ```text
 * idle ── run() ──▶ running ── shutdown() ──▶ draining ── near the deadline, cancel() ──▶ cancelling
 *   ▲                  │ work done                │ work done                                 │
 *   └──────────────────┴──────────────────────────┴───────────────────────────────────────────┘
 * ```
 *
 * - A `shutdown` while idle makes the next `run` return immediately. One that follows a stop changes
 *   nothing, so stopping twice and starting again works.
 * - Concurrent `shutdown` calls share one stop, each with its own timeout. The earliest timeout decides
 *   when the work is cancelled.
 * - A second `run` while the loop runs is an error.
 */
export abstract class BaseLoop implements Runnable {
  /** The name in reports and health, unique in a group. */
  readonly name: string;
  /** Loops with a lower stopOrder stop first, equal ones together. */
  readonly stopOrder: number;
  /** The timeout of its stop, within that of its group. */
  readonly shutdownTimeoutMs: number | undefined;
  /** The heartbeat that the watchdog checks. */
  readonly heartbeat: Heartbeat;
  /** The source of time and timers. */
  protected readonly clock: Clock;
  /** The source of jitter. */
  protected readonly random: Random;
  readonly #inFlight = new Set<Work>();
  #run: Run | undefined;
  #stopped = false;
  #stopNext = false;
  #resumed: Deferred<void> | undefined;
  #quiet: Deferred<void> | undefined;

  /** Throws a `TypeError` for an empty name, and a `RangeError` for an invalid option. */
  constructor(name: string, options: LoopOptions = {}) {
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Invalid loop name: expected a non-empty string, got ${show(name)}`);
    }
    this.name = name;
    this.stopOrder = checkStopOrder(options.stopOrder ?? 0);
    this.shutdownTimeoutMs = options.shutdownTimeoutMs;
    checkDuration("shutdownTimeoutMs", options.shutdownTimeoutMs ?? Infinity);
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? systemRandom;
    this.heartbeat = new Heartbeat(this.clock);
    // Bound, so that `coordinator.register(loop.shutdown)` works.
    this.shutdown = this.shutdown.bind(this);
  }

  /** Does the work of one run, and returns soon after `stopping` aborts. */
  protected abstract work(context: LoopContext, options: RunOptions): Promise<void>;

  /** True from the call of `run` until it settles. */
  get running(): boolean {
    return this.#run !== undefined;
  }

  /** The work in flight. */
  get inFlight(): readonly InFlight[] {
    if (this.#inFlight.size === 0) return [];
    const now = this.clock.monotonic();
    return Array.from(this.#inFlight, ({ id, since }) => ({ id, ageMs: now - since }));
  }

  /** Runs until the work is done or a stop is requested. Rejects when the loop fails. */
  async run(options: RunOptions = {}): Promise<void> {
    if (isInspected(() => ({ loops: [this], runOptions: options }))) {
      return await new Promise(() => {});
    }
    checkRunOptions(options);
    if (this.#run !== undefined) {
      throw new Error(`Loop "${this.name}" is already running: stop it before running it again`);
    }
    this.#stopped = this.#stopNext || options.signal?.aborted === true;
    this.#stopNext = false;
    if (this.#stopped) return;

    const run = this.#run = new Run();
    const unlink = onAbort(options.signal, () => run.stopping.abort(STOPPING));
    this.heartbeat.beat();
    try {
      const context = {
        stopping: run.stopping.signal,
        signal: run.cancelling.signal,
        beat: () => this.heartbeat.beat(),
      };
      await runInside(run, () => this.work(context, options));
    } finally {
      unlink();
      this.#stopped = run.stopping.signal.aborted;
      this.#run = undefined;
      run.ended.resolve();
    }
  }

  /**
   * Requests a graceful stop and waits. Returns true when the loop has stopped, false when the time ran out
   * first. Called from inside the loop, such as by its handler, it returns false without waiting: the loop
   * stops when the caller has ended.
   */
  async shutdown(options: ShutdownOptions = {}): Promise<boolean> {
    const ownTimeoutMs = this.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS;
    const timeoutMs = checkDuration("timeoutMs", options.timeoutMs ?? ownTimeoutMs);
    const run = this.#run;
    if (run === undefined) {
      this.#stopNext = !this.#stopped;
      return true;
    }
    run.stopping.abort(STOPPING);
    const { promise: ended } = run.ended;
    const stopped = options.callerCancels === true
      ? settlesWithin(ended, timeoutMs, this.clock)
      : endsWithin(ended, timeoutMs, this.clock, () => {
        run.cancelling.abort(new CancelledError("deadline", `loop "${this.name}"`));
      });
    return isInside(run) ? false : await stopped;
  }

  /** Cancels work in flight now instead of near the deadline. */
  cancel(reason: CancelledError): void {
    this.#run?.stopping.abort(STOPPING);
    this.#run?.cancelling.abort(reason);
  }

  /**
   * Takes no new work until `resume`. Resolves when no work is in flight; immediately when called from
   * inside the loop, such as by its handler.
   */
  async pause(): Promise<void> {
    this.#resumed ??= deferred();
    if (this.#inFlight.size > 0 && !this.callerIsInside) await (this.#quiet ??= deferred()).promise;
  }

  /** Takes work again after `pause`. */
  resume(): void {
    this.#resumed?.resolve();
    this.#resumed = undefined;
  }

  /** Calls `shutdown` with the loop's own timeout. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  /** Resolves when the loop may take work: after `resume` while it is paused. Also resolves on a stop. */
  protected async admission(stopping: AbortSignal): Promise<void> {
    while (this.#resumed !== undefined && !stopping.aborted) {
      this.heartbeat.rest();
      const stopped = deferred();
      const unlink = onAbort(stopping, () => stopped.resolve());
      await Promise.race([this.#resumed.promise, stopped.promise]);
      unlink();
      this.heartbeat.beat();
    }
  }

  /** True when the caller is part of this loop's run and would wait for itself. */
  protected get callerIsInside(): boolean {
    return this.#run !== undefined && isInside(this.#run);
  }

  /** True between `pause` and `resume`. */
  protected get paused(): boolean {
    return this.#resumed !== undefined;
  }

  /** Counts a piece of work as in flight until `untrack`. */
  protected track<W extends Work>(work: W): W {
    this.#inFlight.add(work);
    return work;
  }

  /** Removes a piece of work that has ended. */
  protected untrack(work: Work): void {
    this.#inFlight.delete(work);
    if (this.#inFlight.size > 0) return;
    this.#quiet?.resolve();
    this.#quiet = undefined;
  }
}
