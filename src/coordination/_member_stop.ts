import { onAbort } from "../_promises.ts";
import { type Deadline, reserveOf } from "../lifecycle/deadline.ts";
import { DEFAULT_VISIBILITY_TIMEOUT_MS } from "../mailbox/mailbox.ts";
import { InboxDrain } from "./_inbox_drain.ts";
import type { Member, StopHook } from "./member.ts";
import type { MemberMetadata, MemberState } from "./member_state.ts";
import type { CoordinationSettings } from "./settings.ts";
import { OutOfTimeError, type ShutdownReport, ShutdownSteps } from "./shutdown_steps.ts";

/** A request to stop one member. */
export interface StopRequest {
  readonly member: Member;
  readonly signal?: AbortSignal | undefined;
  readonly visibilityTimeoutMs?: number | undefined;
}

/** What members share that stop together. */
export interface SharedStop {
  readonly deadline: Deadline;
  readonly settings: CoordinationSettings;
  readonly reason: string;
  /** Notifies the peers once for all members. */
  readonly broadcast: () => Promise<void>;
}

/** The stop of one member, from its first step to its report. */
export class MemberStop {
  readonly #member: Member;
  readonly #signal: AbortSignal | undefined;
  readonly #shared: SharedStop;
  readonly #drain: InboxDrain;
  readonly #steps: ShutdownSteps;
  readonly #startedAt: number;

  constructor(request: StopRequest, shared: SharedStop) {
    const { member, signal, visibilityTimeoutMs = DEFAULT_VISIBILITY_TIMEOUT_MS } = request;
    const { clock } = member.bus.board;
    const { maxBatch, drainIntervalMs } = shared.settings;
    this.#member = member;
    this.#signal = signal;
    this.#shared = shared;
    this.#drain = new InboxDrain(member, {
      maxBatch,
      intervalMs: drainIntervalMs,
      visibilityTimeoutMs,
    });
    this.#steps = new ShutdownSteps(shared.deadline, clock);
    this.#startedAt = clock.monotonic();
  }

  async run(): Promise<ShutdownReport> {
    const { id, bus, options } = this.#member;
    const { onHealth, stopLiveness, stopOrphans, cleanup = [] } = options;
    const { broadcast, reason } = this.#shared;

    await this.#steps.run("announce_state", () => this.#writeState("shutting_down", { reason }));
    const announced = this.#steps.good;
    await this.#steps.run("broadcast", broadcast);
    await this.#steps.run(
      "mark_unhealthy",
      onHealth && (() => onHealth({ agentId: id, healthy: false, reason: "shutting_down" })),
    );
    await this.#steps.run("drain_inbox", (signal, budgetMs) => this.#empty(signal, budgetMs));
    await this.#steps.run("stop_liveness", async (signal) => {
      bus.endLiveness(this.#member);
      await stopLiveness?.({ signal });
    });
    await this.#steps.run("release_bus", (signal) => this.#emptyAgain(signal));
    await this.#steps.run("stop_orphans", stopOrphans && ((signal) => stopOrphans({ signal })));
    await this.#steps.run(
      "clean_up",
      cleanup.length > 0 ? (signal) => runAll(cleanup, signal) : undefined,
    );
    await this.#steps.run("complete_state", async () => {
      // The board may have been unreachable when the stop began.
      if (!announced) await this.#writeState("shutting_down", { reason });
      if (this.#complete) await this.#writeState("shutdown_complete", { reason });
      else {
        await this.#writeState("shutting_down", { reason, complete: false, left: this.#left });
      }
    });
    await this.#steps.run(
      "final_health",
      onHealth && (() => {
        const reason = this.#complete ? "shutdown_complete" : "shutdown_incomplete";
        return onHealth({ agentId: id, healthy: false, reason });
      }),
    );
    return this.#report();
  }

  #writeState(state: MemberState, metadata: MemberMetadata): Promise<void> {
    const { id, bus, metadata: own, notice } = this.#member;
    return bus.board.setState(id, state, { ...own, ...metadata }, notice && { notice });
  }

  get #complete(): boolean {
    return this.#steps.good && this.#drain.isEmpty;
  }

  get #left(): number | string {
    return this.#drain.counts.left ?? "not known";
  }

  /** Stops the loop, drains the inbox, and sends the remaining messages to the successor. */
  async #empty(signal: AbortSignal, budgetMs: number): Promise<void> {
    const { runnable, successor } = this.#member.options;
    const { clock } = this.#member.bus.board;
    // Reserve time for releasing messages and for the successor.
    const enough = new AbortController();
    const reserveMs = successor === undefined ? reserveOf(budgetMs) : 2 * reserveOf(budgetMs);
    const cancel = clock.schedule(budgetMs - reserveMs, () => enough.abort(signal.reason));
    const unlink = onAbort(this.#signal, () => enough.abort(this.#signal?.reason));
    const workMs = budgetMs - reserveMs;
    try {
      const stopped = !runnable?.running || await runnable.shutdown({ timeoutMs: workMs });
      await this.#drain.work(enough.signal);
      if (!stopped) throw new OutOfTimeError(`"${runnable?.name}" did not stop in time`);
    } finally {
      cancel();
      unlink();
      if (!this.#drain.isEmpty && await this.#drain.count() > 0 && successor !== undefined) {
        await this.#drain.handOver(successor, signal);
        await this.#drain.count();
      }
    }
    this.#checkEmpty();
  }

  /** Drains messages that peers sent before they got the notice. */
  async #emptyAgain(signal: AbortSignal): Promise<void> {
    if (!this.#drain.isEmpty) return; // the first drain ran out of time
    try {
      await this.#drain.work(signal);
    } finally {
      if (!this.#drain.isEmpty) await this.#drain.count();
    }
    this.#checkEmpty();
  }

  #checkEmpty(): void {
    if (this.#drain.isEmpty) return;
    throw new OutOfTimeError(`${this.#left} messages were left in the inbox`);
  }

  #report(): ShutdownReport {
    const { clock } = this.#member.bus.board;
    return {
      agentId: this.#member.id,
      complete: this.#complete,
      durationMs: clock.monotonic() - this.#startedAt,
      ...this.#drain.counts,
      steps: this.#steps.done,
    };
  }
}

/** Runs all hooks in order, then throws their errors. */
async function runAll(hooks: readonly StopHook[], signal: AbortSignal): Promise<void> {
  const errors: unknown[] = [];
  for (const hook of hooks) {
    try {
      await hook({ signal });
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} clean-ups failed`);
}
