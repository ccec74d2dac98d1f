import { checkDuration } from "../_checks.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type CancelledError, errorText } from "../errors.ts";
import { BaseLoop, type LoopContext } from "../lifecycle/base_loop.ts";
import { reserveOf } from "../lifecycle/deadline.ts";
import { type MessageCounts, NO_COUNTS, sumCounts } from "../lifecycle/runnable.ts";
import { Heartbeat } from "../lifecycle/watchdog.ts";
import {
  DEFAULT_SHUTDOWN_TIMEOUT_MS,
  type InFlight,
  type Runnable,
  type RunOptions,
  type ShutdownOptions,
} from "../lifecycle/runnable.ts";
import type { AgentOptions } from "./agent.ts";
import { agentMailboxLoop } from "./_agent_mailbox_loop.ts";
import type { Bus } from "./bus.ts";
import type { CoordinatedShutdownOptions } from "./shutdown.ts";
import type { ShutdownReport } from "./shutdown_report.ts";
import { StoppingSet } from "./_stopping_set.ts";

/**
 * The loop of an agent, for a `LoopGroup`. While it runs, the agent takes part in its bus; to stop it is
 * to stop the agent in the coordinated form, whatever the reason.
 */
export class CoordinatedLoop extends BaseLoop {
  /** That of the loop which does the agent's work. */
  override readonly heartbeat: Heartbeat;
  readonly #bus: Bus;
  readonly #options: AgentOptions;
  readonly #inner: Runnable;
  readonly #set: StoppingSet;
  #timeoutMs: number | undefined;
  #report: ShutdownReport | undefined;

  /** Made by {@linkcode coordinatedLoops}. */
  constructor(bus: Bus, options: AgentOptions, inner: Runnable, set: StoppingSet) {
    const { stopOrder = 0, shutdownTimeoutMs } = inner;
    super(options.id, {
      stopOrder,
      clock: bus.board.clock,
      ...(shutdownTimeoutMs !== undefined && { shutdownTimeoutMs }),
    });
    this.#bus = bus;
    this.#options = options;
    this.#inner = inner;
    this.#set = set;
    this.heartbeat = inner.heartbeat ?? new Heartbeat(bus.board.clock);
    this.shutdown = this.shutdown.bind(this);
  }

  /** How the last stop went. */
  get report(): ShutdownReport | undefined {
    return this.#report;
  }

  /** That of the loop which does the agent's work. */
  get ready(): boolean {
    return this.#inner.ready ?? true;
  }

  /** What the agent is working on now. */
  override get inFlight(): readonly InFlight[] {
    return this.#inner.inFlight ?? [];
  }

  /** What its last stop had no time for; the group's outcome is then `timed_out`. */
  get unfinished(): readonly string[] {
    return this.#report === undefined || this.#report.complete
      ? []
      : [incompleteText(this.#report)];
  }

  /** What the agent works off. */
  get mailbox(): Runnable["mailbox"] {
    return this.#inner.mailbox;
  }

  /** What became of the messages, those that the stop has drained included. */
  get counts(): MessageCounts {
    return sumCounts([this.#inner.counts ?? NO_COUNTS, this.#drained()]);
  }

  /** Stops the agent step by step; false also when something of it was left. */
  override async shutdown(options: ShutdownOptions = {}): Promise<boolean> {
    const ownTimeoutMs = this.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS;
    const timeoutMs = checkDuration("timeoutMs", options.timeoutMs ?? ownTimeoutMs);
    this.#timeoutMs = Math.min(timeoutMs, this.#timeoutMs ?? Infinity);
    const wasRunning = this.running;
    const stopped = await super.shutdown(options);
    return stopped && (!wasRunning || this.#report?.complete !== false);
  }

  /** Ends what is in flight, and the steps of a stop that is under way. */
  override cancel(reason: CancelledError): void {
    this.#inner.cancel?.(reason);
    super.cancel(reason);
  }

  /** Takes no new messages until `resume`; peers are told nothing of it. */
  override async pause(): Promise<void> {
    await this.#inner.pause?.();
  }

  /** Takes messages again. */
  override resume(): void {
    this.#inner.resume?.();
  }

  /** Gives back what handlers still work on, because the process ends in a moment. */
  async abandon(): Promise<void> {
    await this.#inner.abandon?.();
  }

  /** Takes part in the bus, works until the stop, and then stops the agent. Rejects when a step failed. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    const { stopping, signal } = context;
    this.#report = undefined;
    const agent = await this.#bus.enrol({ ...this.#options, runnable: this.#inner });
    const { signal: _, ...innerOptions } = options;
    const stopBegan = deferred();
    const unlink = onAbort(stopping, stopBegan.resolve);
    const run = this.#inner.run(innerOptions);
    try {
      await Promise.race([run, stopBegan.promise]);
    } catch {
      // It has failed, which the end of this tells: the agent leaves in good order first.
    }
    unlink();
    const timeoutMs = this.#timeoutMs ?? this.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS;
    this.#timeoutMs = undefined;
    const stopMs = timeoutMs - reserveOf(timeoutMs);
    this.#report = await this.#set.join(agent, stopMs, signal, options.visibilityTimeoutMs);
    if (!this.#report.complete) {
      this.#bus.board.log.warn(`agent "${agent.id}" did not stop completely`, {
        report: this.#report,
      });
    }
    await run;
    const failed = this.#report.steps.find(({ outcome }) => outcome === "failed");
    if (failed !== undefined) {
      throw new Error(incompleteText(this.#report), { cause: failed.error });
    }
  }

  #drained(): MessageCounts {
    if (this.#report === undefined) return NO_COUNTS;
    const { processed, failed, archived, handedOver, givenBack } = this.#report;
    const kept = this.#options.archive === undefined ? 0 : archived;
    return {
      received: processed + failed + archived + handedOver + givenBack,
      acknowledged: processed + handedOver + kept,
      released: givenBack,
      nacked: 0,
      deadLettered: failed + archived - kept,
      leftToExpire: 0,
    };
  }
}

function incompleteText({ agentId, steps, left }: ShutdownReport): string {
  const bad = steps.filter(({ outcome }) => outcome === "failed" || outcome === "timed_out");
  const parts = bad.map(({ name, outcome, error }) => {
    return `${name} ${outcome.replace("_", " ")} (${errorText(error)})`;
  });
  if (left !== 0) parts.push(`messages left in the inbox: ${left ?? "not known"}`);
  return `agent "${agentId}" did not stop completely: ${parts.join(", ")}`;
}

/**
 * Makes loops of agents, for a `LoopGroup`: a SIGTERM then runs their coordinated stop, together for all
 * that the group stops together. An agent without a `runnable` works on its inbox with its handlers.
 *
 * @example
 * ```ts
 * import { LoopGroup } from "@lastcall/lastcall";
 * import { Board, Bus, coordinatedLoops } from "@lastcall/lastcall/coordination";
 *
 * await using board = new Board();
 * await using bus = new Bus({ board });
 * const loops = await coordinatedLoops(bus, [
 *   { id: "worker-1", handlers: { task: ({ payload }) => console.log(payload) } },
 *   { id: "worker-2", handlers: { task: ({ payload }) => console.log(payload) } },
 * ]);
 * const group = new LoopGroup(loops);
 * const run = group.run(); // or `await group.main()`, which ends with the process
 * await group.shutdown();
 * await run;
 * console.assert(loops.every(({ report }) => report === undefined || report.complete));
 * ```
 */
export async function coordinatedLoops(
  bus: Bus,
  agents: readonly AgentOptions[],
  options: CoordinatedShutdownOptions = {},
): Promise<readonly CoordinatedLoop[]> {
  const { clock, log } = bus.board;
  const set = new StoppingSet(options);
  return await Promise.all(agents.map(async (agent) => {
    const inbox = agent.inbox ?? await bus.inboxOf(agent.id);
    const inner = agent.runnable ?? agentMailboxLoop(agent, inbox, clock, log);
    return new CoordinatedLoop(bus, { ...agent, inbox }, inner, set);
  }));
}
