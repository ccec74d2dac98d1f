import { checkDuration } from "../_checks.ts";
import { Emitter } from "../_emitter.ts";
import { settlesWithin } from "../_promises.ts";
import { flushLibraryLog, loadLibraryLog, useFallbackLog } from "../library_log.ts";
import { consoleLog } from "../log.ts";
import type { Clock } from "../clock.ts";
import { endsWithin } from "./deadline.ts";
import { type DrainReport, GroupFailedError, type Outcome } from "./drain_report.ts";
import type { GroupEvents } from "./group_events.ts";
import { type BaseGroupOptions, type GroupConfig, groupConfig } from "./group_options.ts";
import { GroupRun } from "./_group_run.ts";
import { healthOf, type HealthSnapshot } from "./health_snapshot.ts";
import { isInside } from "./_inside.ts";
import { isInspected, joinProcessEnd } from "./process_share.ts";
import {
  checkRunOptions,
  type Runnable,
  type RunOptions,
  type ShutdownOptions,
} from "./runnable.ts";
import type { Resource } from "./resources.ts";
import { DEFAULT_WATCHDOG_THRESHOLD_MS } from "./watchdog.ts";

/** Options of {@linkcode LoopGroup.run}. All but `installSignals` are passed to every loop. */
export interface LoopGroupRunOptions extends RunOptions {
  /**
   * Stop on SIGTERM and SIGINT. Worker threads of Node and Bun get no signals: `run` rejects there
   * unless this is false. @default {true}
   */
  readonly installSignals?: boolean;
}

/**
 * How long the end of the process waits for LogTape to load, and for the reader of standard error.
 * Records that LogTape cannot accept by then go to standard error.
 */
const LAST_WRITE_TIMEOUT_MS = 1_000;

/** A view of the stop, such as the one on the terminal. */
export interface StopView {
  /** Shows the report and restores the terminal. Returns true when it showed the whole report. */
  end(report?: DrainReport): boolean;
}

/**
 * Runs and stops loops together. {@linkcode LoopGroup} adds the health server and the view on the
 * terminal. Every stop has one deadline and ends in a {@linkcode DrainReport}.
 */
export class BaseGroup implements AsyncDisposable {
  readonly #options: BaseGroupOptions;
  readonly #config: GroupConfig;
  readonly #emitter: Emitter<GroupEvents>;
  #run: GroupRun | undefined;
  #stopped = false;
  #stopNext = false;
  #paused = false;
  readonly #outcomes: Record<Outcome, number> = {
    drained: 0,
    timed_out: 0,
    failed: 0,
    forced: 0,
  };

  /** Checks the loops and options. Nothing starts before `run`. */
  constructor(loops: readonly Runnable[], options: BaseGroupOptions = {}) {
    this.#options = options;
    this.#config = groupConfig(loops, options);
    this.#emitter = new Emitter<GroupEvents>(this.#config.log);
    // Bound, so that `coordinator.register(group.shutdown)` works.
    this.shutdown = this.shutdown.bind(this);
  }

  /** The loops, in the order of the constructor's argument. */
  get loops(): readonly Runnable[] {
    return this.#config.loops;
  }

  /** True from the call of `run` until it settles. */
  get running(): boolean {
    return this.#run !== undefined && this.#run.phase !== "stopped";
  }

  /** The number of runs of this group by their outcome. */
  get outcomes(): Readonly<Record<Outcome, number>> {
    return { ...this.#outcomes };
  }

  /** Adds a listener for `phase`, `loop`, `problem` or `stall` events. Returns the remover. */
  on<K extends keyof GroupEvents>(kind: K, listener: (event: GroupEvents[K]) => void): () => void {
    return this.#emitter.on(kind, listener);
  }

  /** Returns the current health of the group and its loops. */
  health(): HealthSnapshot {
    const thresholdMs = this.#config.watchdogThresholdMs || DEFAULT_WATCHDOG_THRESHOLD_MS;
    const { members, phases = [], stopProgress: stop, end } = this.#run ?? {};
    return healthOf({
      phases: phases.map(({ phase }) => phase),
      paused: this.#paused,
      members: members ?? this.loops.map((loop) => ({ loop, state: "waiting", restarts: 0 })),
      ...{ thresholdMs, stop, end },
    });
  }

  /**
   * Runs all loops until they have ended, a stop is requested, or a loop fails. It returns at the deadline
   * of the stop at the latest; the report names what still runs then.
   *
   * Rejects with a {@linkcode GroupFailedError} when loops failed, unless failures are ignored.
   */
  async run(options: LoopGroupRunOptions = {}): Promise<DrainReport> {
    if (this.#isInspected(options)) return await new Promise<never>(() => {});
    const report = await this.#execute(options, false);
    if (report.failed.length > 0 && this.#config.onFailure !== "ignore") {
      throw new GroupFailedError(report);
    }
    return report;
  }

  /**
   * Runs like `run`, then ends the process: exit code 0 when drained, 1 when a loop failed, 124 when the
   * deadline passed with work left, 128 + n when signal n forced the stop. Where several groups run with
   * `main()`, the end of one begins the stop of all. The process ends after the last one, with the worst
   * exit code: forced, then failed, then timed out.
   *
   * Warnings and errors that LogTape is not configured for go to standard error, including the report of a
   * run that did not drain.
   *
   * Rejects in a worker thread, which cannot end the process.
   */
  async main(options: LoopGroupRunOptions = {}): Promise<never> {
    if (this.#isInspected(options)) return await new Promise<never>(() => {});
    const { clock, log, runtime } = this.#config;
    if (runtime().inWorker?.()) {
      throw new Error(
        "main() cannot end the process from a worker thread. Run the group in the main thread, or call " +
          "run({ installSignals: false }) in the worker and stop it with shutdown().",
      );
    }
    const endProcess = joinProcessEnd(runtime());
    const restoreLog = useFallbackLog(consoleLog);
    const loaded = loadLibraryLog(); // now, so that the stop does not wait for it
    const view = this.showStop()?.catch(() => undefined);
    let exitCode = 1;
    try {
      const report = await this.#execute(options, true);
      exitCode = report.exitCode;
      const shown = (await view)?.end(report) ?? false;
      await settlesWithin(loaded, LAST_WRITE_TIMEOUT_MS, clock);
      flushLibraryLog();
      // The terminal shows the report already: do not write it there again.
      if (shown) restoreLog();
      log[report.outcome === "drained" ? "info" : "error"](String(report), { report });
    } catch (error) {
      (await view)?.end();
      log.error("the group could not run", { error });
    }
    await settlesWithin(loaded, LAST_WRITE_TIMEOUT_MS, clock);
    flushLibraryLog();
    restoreLog();
    const written = runtime().terminal?.flush?.();
    if (written !== undefined) await settlesWithin(written, LAST_WRITE_TIMEOUT_MS, clock);
    return await endProcess(exitCode);
  }

  /**
   * Stops all loops and waits. Returns true when all have stopped, false when the time ran out. While the
   * group does not run, it makes the next `run` return immediately.
   *
   * Called from inside the group, such as by a handler, a resource or work that these have started, it
   * begins the stop and returns false without waiting: the group stops when the caller has ended. Node
   * before version 24 cannot detect this, and such a call waits until the deadline.
   */
  async shutdown(options: ShutdownOptions = {}): Promise<boolean> {
    const { clock, shutdownTimeoutMs } = this.#config;
    const timeoutMs = checkDuration("timeoutMs", options.timeoutMs ?? shutdownTimeoutMs);
    const run = this.#run;
    if (run === undefined || !this.running) {
      this.#stopNext = !this.#stopped;
      return true;
    }
    run.requestStop({ kind: "shutdown", text: "shutdown() was called" }, timeoutMs);
    const stopped = stopsWithin(run, timeoutMs, clock);
    return isInside(run) ? false : await stopped;
  }

  /** Takes no new work and is not ready until `resume`. Resolves when no work is in flight. */
  async pause(): Promise<void> {
    this.#paused = true;
    await Promise.all(this.loops.map((loop) => loop.pause?.()));
  }

  /** Takes work again after `pause`. */
  resume(): void {
    this.#paused = false;
    for (const loop of this.loops) loop.resume?.();
  }

  /** Stops the group. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  /** Returns the resources that start before all others and stop after them. */
  protected firstResources(): readonly Resource[] {
    return [];
  }

  /** Begins to show the stop. Only `main` calls it. */
  protected showStop(): Promise<StopView> | undefined {
    return undefined;
  }

  #isInspected(runOptions: LoopGroupRunOptions): boolean {
    return isInspected(() => ({ ...this.#options, ...this.#config, runOptions }));
  }

  async #execute(options: LoopGroupRunOptions, endsProcess: boolean): Promise<DrainReport> {
    checkRunOptions(options);
    if (this.running) {
      throw new Error("The group is already running: stop it before running it again");
    }
    const { installSignals = true, signal, ...loopOptions } = options;
    const firstResources = this.firstResources();
    const runOptions = { loopOptions, signal, installSignals, endsProcess, firstResources };
    const run = new GroupRun(this.#config, runOptions, this.#emitter);
    this.#run = run;
    if (this.#stopNext) run.requestStop({ kind: "shutdown", text: "shutdown() came before run()" });
    this.#stopNext = false;
    try {
      const report = await run.execute();
      this.#outcomes[report.outcome]++;
      return report;
    } finally {
      this.#stopped = run.reason.kind !== "finished";
    }
  }
}

async function stopsWithin(run: GroupRun, timeoutMs: number, clock: Clock): Promise<boolean> {
  await endsWithin(run.finished, timeoutMs, clock, () => {
    run.cancelAll("deadline", "the time of a shutdown() is nearly up");
  });
  return run.clean;
}
