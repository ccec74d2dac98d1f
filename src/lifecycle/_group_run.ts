import type { Emitter } from "../_emitter.ts";
import { abortable, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { CancelledError, type CancelReason, TerminatingError } from "../errors.ts";
import type { SignalName } from "../runtime.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import { Deadline } from "./deadline.ts";
import { DrainReport, EXIT_CODES } from "./drain_report.ts";
import type { GroupEvents, Phase, PhaseEvent, StopReason } from "./group_events.ts";
import { RunRecord } from "./group_events.ts";
import type { GroupConfig, GroupRunOptions } from "./group_options.ts";
import { RestartBudget, watchdogOf, watchdogResource } from "./group_options.ts";
import { runInside } from "./_inside.ts";
import { allDone, Member, stopInOrder } from "./_member.ts";
import type { RunEnd, StopProgress } from "./health_snapshot.ts";
import { recycleResource } from "./recycle.ts";
import { ResourceStack } from "./resources.ts";
import { ShutdownCoordinator } from "./shutdown_coordinator.ts";
import type { Watchdog } from "./watchdog.ts";

/**
 * One run of a group, from its start to its report.
 *
 * ```text
 * starting ─▶ running ─▶ unready ─▶ draining ─▶ cancelling ─▶ stopped
 * ```
 *
 * The first request to stop sets the only deadline. Loops with a lower `stopOrder` stop first. Each stage
 * leaves a reserve for the later ones. Resources stop last.
 */
export class GroupRun {
  /** Resolves when loops and resources have stopped, or the deadline has passed. */
  readonly finished: Promise<void>;
  readonly members: readonly Member[];
  readonly #config: GroupConfig;
  readonly #options: GroupRunOptions;
  readonly #emitter: Emitter<GroupEvents>;
  readonly #watchdog: Watchdog | undefined;
  readonly #resources: ResourceStack;
  readonly #record: RunRecord;
  readonly #ended = deferred();
  readonly #stop = new AbortController();
  readonly #stopRequested = deferred();
  readonly #force = new AbortController();
  readonly #unfinished: string[] = [];
  readonly #startedAt: number;
  #reason: StopReason = { kind: "finished", text: "every loop has ended" };
  #deadline: Deadline;
  #stopping = false;
  #over = false;
  #forcedBy: SignalName | undefined;
  /** How the run ended. Set when only the health server still runs. */
  end: RunEnd | undefined;
  /** Set while the run follows the signals of the process. */
  #coordinator: ShutdownCoordinator | undefined;

  constructor(config: GroupConfig, options: GroupRunOptions, emitter: Emitter<GroupEvents>) {
    const { clock, onFailure } = config;
    this.finished = this.#ended.promise;
    this.#config = config;
    this.#options = options;
    this.#emitter = emitter;
    this.#record = new RunRecord(emitter, clock, config.log);
    this.#startedAt = clock.monotonic();
    this.#deadline = new Deadline(config.shutdownTimeoutMs, clock);
    const onProblem = (what: string, error: unknown) => this.#record.problem(what, error);
    this.members = config.loops.map((loop) => {
      const restarts = onFailure === "restart" ? new RestartBudget(config.restart) : undefined;
      return new Member(loop, config, restarts, { onState: (m) => this.#onState(m), onProblem });
    });
    this.#watchdog = watchdogOf(config, {
      onStall: (stalled) => emitter.emit("stall", { stalled }),
      runtime: config.runtime(),
    });
    const watchdog = watchdogResource(this.#watchdog, options.endsProcess);
    const recycling = recycleResource(config, (reason) => this.requestStop(reason));
    const resources = [...options.firstResources, ...watchdog, ...recycling, ...config.resources];
    this.#resources = new ResourceStack(resources, clock, onProblem);
  }

  get reason(): StopReason {
    return this.#reason;
  }

  get phase(): Phase {
    return this.#record.phase;
  }

  get phases(): readonly PhaseEvent[] {
    return this.#record.phases;
  }

  /** The progress of the stop; undefined before it. */
  get stopProgress(): StopProgress | undefined {
    if (!this.#stopping) return undefined;
    const { elapsedMs, remainingMs, timeoutMs } = this.#deadline;
    const { text: reason, kind } = this.#reason;
    return { reason, kind, elapsedMs, remainingMs, timeoutMs };
  }

  /** True when the run is over and no loop, resource or callback is left running. */
  get clean(): boolean {
    return this.#over && this.#unfinished.length === 0 &&
      this.members.every(({ state }) => state !== "hung");
  }

  /** Begins the stop. Only the first call has an effect. */
  requestStop(reason: StopReason, timeoutMs: number = this.#config.shutdownTimeoutMs): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#reason = reason;
    this.#deadline = new Deadline(timeoutMs, this.#config.clock);
    // Turn readiness off before anything else, so that no new work is routed here.
    const active = this.phase === "running" && this.members.some((member) => member.active);
    if (active) this.#record.enter("unready", reason.text);
    this.#stop.abort(new TerminatingError(`The group is stopping: ${reason.text}`));
    this.#stopRequested.resolve();
    // The process ends after this run, so the other shutdown callbacks must run too.
    if (this.#options.endsProcess) void this.#coordinator?.trigger(reason);
  }

  /** Stops all loops now and cancels their work in flight. */
  cancelAll(why: CancelReason, text: string): void {
    for (const member of this.members) member.stop(this.#deadline.remainingMs);
    this.#cancel(this.members, why, text);
  }

  async execute(): Promise<DrainReport> {
    this.#record.enter("starting", "run() was called");
    let disconnect = () => {};
    try {
      disconnect = this.#connect();
      await this.#start();
      if (!this.#stop.signal.aborted) this.#launch();
      await this.#stopRequested.promise;
      await this.#stopLoops();
      await this.#traceStop();
      await this.#stopTheRest();
    } finally {
      disconnect();
      this.#record.enter("stopped", this.#reason.text);
      this.#finish();
    }
    return this.#report();
  }

  /** Listens to signals and to the caller's signal, and keeps the process alive. */
  #connect(): () => void {
    const { runtime } = this.#config;
    const { installSignals, signal } = this.#options;
    const disconnect = installSignals ? this.#followSignals() : () => {};
    const aborted = { kind: "aborted", text: "the caller's signal was aborted" } as const;
    const unlink = onAbort(signal, () => this.requestStop(aborted));
    const release = runtime().keepAlive();
    return () => {
      unlink();
      disconnect();
      release();
    };
  }

  /** Stops with the process, also for a signal that arrived before the run. */
  #followSignals(): () => void {
    const { runtime, clock, log } = this.#config;
    const { coordinator, release } = ShutdownCoordinator.hold({ runtime: runtime(), clock, log });
    const { reason, forceSignal } = coordinator;
    this.#coordinator = coordinator;
    coordinator.register(this.#stopLoopGroup, this.#options);
    // The coordinator calls asynchronously: without this a loop would begin first.
    if (reason !== undefined) this.requestStop(reason);
    const unlink = onAbort(forceSignal, () => this.#onForce(forceSignal.reason));
    return () => {
      unlink();
      coordinator.unregister(this.#stopLoopGroup);
      release();
    };
  }

  readonly #stopLoopGroup = (reason: StopReason): Promise<void> => {
    this.requestStop(reason);
    return this.finished;
  };

  async #start(): Promise<void> {
    const started = runInside(this, () => this.#resources.start(this.#stop.signal));
    try {
      await Promise.race([started, this.#stopRequested.promise]);
    } catch (error) {
      // The deadline starts now: a slow start must not use up the time to stop.
      this.#deadline = new Deadline(this.#config.shutdownTimeoutMs, this.#config.clock);
      this.end = { outcome: "failed", exitCode: EXIT_CODES.failed };
      await this.#stopResources();
      throw error;
    }
    started.catch((error) => this.#record.problem("start-up failed while stopping", error));
  }

  #launch(): void {
    this.#record.enter("running", "the resources are ready");
    const { loopOptions } = this.#options;
    for (const member of this.members) runInside(this, () => member.run(loopOptions));
    allDone(this.members).then(() => this.requestStop(this.#reason));
  }

  async #stopLoops(): Promise<void> {
    const { clock } = this.#config;
    if (this.phase === "unready") {
      await this.#unreadyDelay();
      if (this.phase === "unready") this.#record.enter("draining", this.#reason.text);
    }
    await stopInOrder(this.members, this.#deadline, clock, (members) => {
      this.#cancel(members, "deadline", "the time is nearly up");
    });
    for (const member of this.members) this.#unfinished.push(...member.giveUp());
  }

  async #unreadyDelay(): Promise<void> {
    const { clock, unreadyDelayMs } = this.#config;
    if (unreadyDelayMs === 0 || this.#reason.interactive === true) return;
    const doneOrForced = abortable(allDone(this.members), this.#force.signal);
    await settlesWithin(doneOrForced, unreadyDelayMs, clock);
  }

  #cancel(members: readonly Member[], why: CancelReason, text: string): void {
    if (this.phase !== "cancelling") this.#record.enter("cancelling", text);
    for (const member of members) {
      member.cancel(new CancelledError(why, `loop "${member.loop.name}"`));
    }
  }

  async #stopTheRest(): Promise<void> {
    const { endsProcess, firstResources: { length: last } } = this.#options;
    if (endsProcess && this.members.some(({ state }) => state === "hung")) {
      const abandoned = Promise.all(this.members.map((member) => member.abandon()));
      await settlesWithin(abandoned, this.#deadline.remainingMs / 2, this.#config.clock);
    }
    this.#unfinished.push(...await this.#stopResources(last));
    if (endsProcess && this.#coordinator !== undefined) {
      // A callback may call shutdown() of this group, which waits for `finished`: resolve it first.
      this.#finish();
      const budgetMs = this.#deadline.budgetMs(last);
      const callbacks = await this.#coordinator.unfinished(budgetMs, this.#stopLoopGroup);
      this.#unfinished.push(...callbacks.map((name) => `shutdown callback ${name}`));
    }
    const { outcome, exitCode } = this.#report();
    this.end = { outcome, exitCode }; // before the health server stops, which reports it
    this.#unfinished.push(...await this.#stopResources());
  }

  /** Records the spans of the stop before the resources stop, to which the exporter may belong. */
  async #traceStop(): Promise<void> {
    if (!isTracing()) return;
    const { clock } = this.#config;
    const endedAt = clock.now();
    const recorded = import("../telemetry/spans.ts").then((it) => it.recordStop(this, endedAt));
    await settlesWithin(recorded, this.#deadline.remainingMs / 2, clock);
  }

  #finish(): void {
    this.#over = true;
    this.#ended.resolve();
  }

  #stopResources(keep = 0): Promise<readonly string[]> {
    return runInside(this, () => this.#resources.stop(this.#deadline, keep));
  }

  #onForce({ signal, text }: StopReason): void {
    this.#forcedBy = signal;
    this.#force.abort();
    this.cancelAll("forced", `a second signal, ${text}`);
  }

  #onState({ loop, state, error }: Member): void {
    const { clock, log, onFailure } = this.#config;
    if (state !== "running") this.#watchdog?.unwatch(loop.name);
    else if (loop.heartbeat !== undefined) this.#watchdog?.watch(loop.name, loop.heartbeat);

    const failed = state === "failed" || state === "backing_off";
    if (failed) log.warn(`loop "${loop.name}" failed`, { state, error });
    const event = { loop: loop.name, state, at: clock.now() };
    this.#emitter.emit("loop", failed ? { ...event, error } : event);
    if (state === "failed" && onFailure !== "ignore") {
      this.requestStop({ kind: "failure", text: `loop "${loop.name}" failed` });
    }
  }

  #report(): DrainReport {
    return new DrainReport({
      reason: this.#reason,
      runMs: this.#config.clock.monotonic() - this.#startedAt,
      stopMs: this.#deadline.elapsedMs,
      timeoutMs: this.#deadline.timeoutMs,
      phases: this.phases,
      loops: this.members.map((member) => member.report()),
      unfinished: this.#unfinished,
      problems: this.#record.problems,
      forcedBy: this.#forcedBy,
    });
  }
}
