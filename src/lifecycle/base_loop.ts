import { checkDuration, show } from "../_checks.ts";
import { type Deferred, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { CancelledError, TerminatingError } from "../errors.ts";
import { endsWithin } from "./deadline.ts";
import { isInside, runInside } from "./_inside.ts";
import {
  checkPriority,
  checkRunOptions,
  DEFAULT_SHUTDOWN_TIMEOUT_MS,
  type InFlight,
  type Runnable,
  type RunOptions,
  type ShutdownOptions,
} from "./runnable.ts";
import { Heartbeat } from "./watchdog.ts";

/** Options that every loop takes. */
export interface LoopOptions {
  /** Lower ones stop first, equal ones together. @default {0} */
  readonly priority?: number;
  /** A bound of its own for its stop, within its group's. @default {the group's, 30_000 alone} */
  readonly shutdownTimeoutMs?: number;
  /** Where time comes from. @default {systemClock} */
  readonly clock?: Clock;
}

/** What a loop's work gets to see of the loop. */
export interface LoopContext {
  /** Aborted when a stop begins: take no new work, and find a good place to end. */
  readonly stopping: AbortSignal;
  /** Aborted when work in flight must end now, with a {@linkcode CancelledError} as its reason. */
  readonly signal: AbortSignal;
  /** Tells the watchdog that long work is still alive. */
  readonly beat: () => void;
}

/** A piece of work that a loop has begun. */
export interface Work {
  /** What reports name it by. */
  readonly id: string;
  /** When it began, by the monotonic clock. */
  readonly since: number;
}

/** One for all, because an error of its own for each of many loops is most of what a stop costs. */
const STOPPING = new TerminatingError("The loop is stopping");

/** One call of `run`, from its start to its end. */
class Run {
  readonly stopping = new AbortController();
  readonly cancelling = new AbortController();
  readonly ended: Deferred<void> = deferred();
}

/**
 * The discipline of starting and stopping, once for every loop. A subclass only does its `work`.
 *
 * ```text
 * idle ── run() ──▶ running ── shutdown() ──▶ draining ── near the deadline, cancel() ──▶ cancelling
 *   ▲                  │ work done                │ work done                                 │
 *   └──────────────────┴──────────────────────────┴───────────────────────────────────────────┘
 * ```
 *
 * - A `shutdown` while idle is not lost: the next `run` returns at once. One that follows a stop
 *   changes nothing, so stopping twice and starting again works.
 * - Any number of concurrent `shutdown` calls share one stop, each with a timeout of its own; the
 *   earliest decides when the work is cancelled.
 * - A second `run` while one is under way is an error.
 */
export abstract class BaseLoop implements Runnable {
  /** Unique in a group; reports and health name the loop by it. */
  readonly name: string;
  /** Lower ones stop first, equal ones together. */
  readonly priority: number;
  /** A bound of its own for its stop, within its group's. */
  readonly shutdownTimeoutMs: number | undefined;
  /** Signs of life for the watchdog. */
  readonly heartbeat: Heartbeat;
  /** Where time comes from. */
  protected readonly clock: Clock;
  readonly #inFlight = new Set<Work>();
  #run: Run | undefined;
  #stopped = false;
  #stopNext = false;
  #resumed: Deferred<void> | undefined;
  #quiet: Deferred<void> | undefined;

  /** Refuses an empty name, and options that make no sense. */
  constructor(name: string, options: LoopOptions = {}) {
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Invalid loop name: expected a non-empty string, got ${show(name)}`);
    }
    this.name = name;
    this.priority = checkPriority(options.priority ?? 0);
    this.shutdownTimeoutMs = options.shutdownTimeoutMs;
    checkDuration("shutdownTimeoutMs", options.shutdownTimeoutMs ?? Infinity);
    this.clock = options.clock ?? systemClock;
    this.heartbeat = new Heartbeat(this.clock);
    // Bound, so that `coordinator.register(loop.shutdown)` works as it reads.
    this.shutdown = this.shutdown.bind(this);
  }

  /** Everything the loop does between start and end. It looks at `stopping`, and returns. */
  protected abstract work(context: LoopContext, options: RunOptions): Promise<void>;

  /** True from the call of `run` until it settles. */
  get running(): boolean {
    return this.#run !== undefined;
  }

  /** What it is working on now. */
  get inFlight(): readonly InFlight[] {
    const now = this.clock.monotonic();
    return Array.from(this.#inFlight, ({ id, since }) => ({ id, ageMs: now - since }));
  }

  /** Works until it is done or told to stop. Rejects when the loop failed. */
  async run(options: RunOptions = {}): Promise<void> {
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
   * Asks for a graceful stop and waits: true when stopped, false when the time ran out first. Called from
   * inside the loop, as by its handler, it asks for the stop and returns false without waiting: the loop
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

  /** Ends work in flight now instead of at the deadline. */
  cancel(reason: CancelledError): void {
    this.#run?.stopping.abort(STOPPING);
    this.#run?.cancelling.abort(reason);
  }

  /**
   * Takes no new work until `resume`; resolves when nothing is in flight. Called from inside the loop, as
   * by its handler, it resolves at once.
   */
  async drain(): Promise<void> {
    this.#resumed ??= deferred();
    if (this.#inFlight.size > 0 && !this.callerIsInside) await (this.#quiet ??= deferred()).promise;
  }

  /** Takes work again after `drain`. */
  resume(): void {
    this.#resumed?.resolve();
    this.#resumed = undefined;
  }

  /** The same as `shutdown`, with the loop's own timeout. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  /** Resolves at once, or after `resume` while the loop is drained, or when it is told to stop. */
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

  /** True when the caller is part of this loop's run, and would wait for itself. */
  protected get callerIsInside(): boolean {
    return this.#run !== undefined && isInside(this.#run);
  }

  /** True between `drain` and `resume`. */
  protected get drained(): boolean {
    return this.#resumed !== undefined;
  }

  /** Counts a piece of work as in flight until `untrack`. */
  protected track<W extends Work>(work: W): W {
    this.#inFlight.add(work);
    return work;
  }

  /** It has ended. */
  protected untrack(work: Work): void {
    this.#inFlight.delete(work);
    if (this.#inFlight.size > 0) return;
    this.#quiet?.resolve();
    this.#quiet = undefined;
  }
}
