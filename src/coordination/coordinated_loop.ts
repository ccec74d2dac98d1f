import { checkDuration } from "../_checks.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type CancelledError, errorText } from "../errors.ts";
import { BaseLoop, type LoopContext } from "../lifecycle/base_loop.ts";
import { reserveOf } from "../lifecycle/deadline.ts";
import {
  DEFAULT_SHUTDOWN_TIMEOUT_MS,
  type InFlight,
  type MessageCounts,
  NO_COUNTS,
  type Runnable,
  type RunOptions,
  type ShutdownOptions,
  sumCounts,
} from "../lifecycle/runnable.ts";
import { Heartbeat } from "../lifecycle/watchdog.ts";
import { MailboxLoop } from "../loops/mailbox_loop.ts";
import type { StandardSchema } from "../loops/schema.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Bus } from "./bus.ts";
import { type BusMessage, messageFault } from "./bus_message.ts";
import { archive, handlerFor, type MemberOptions } from "./member.ts";
import { type CoordinatedShutdownOptions, JointStop } from "./shutdown.ts";
import type { ShutdownReport } from "./shutdown_steps.ts";

/**
 * Runs the loop of a member, as a loop of a `LoopGroup`. The member is enrolled with its bus while the loop
 * runs. However the loop ends, the member is stopped in the ten coordinated steps.
 */
export class CoordinatedLoop extends BaseLoop {
  /** The heartbeat of the member's own loop. */
  override readonly heartbeat: Heartbeat;
  readonly #bus: Bus;
  readonly #options: MemberOptions;
  readonly #inner: Runnable;
  readonly #jointStop: JointStop;
  #timeoutMs: number | undefined;
  #report: ShutdownReport | undefined;

  /** Creates a loop. Only {@linkcode coordinatedLoops} calls it. */
  constructor(bus: Bus, options: MemberOptions, inner: Runnable, jointStop: JointStop) {
    const { stopOrder = 0, shutdownTimeoutMs } = inner;
    super(options.id, {
      stopOrder,
      clock: bus.board.clock,
      random: bus.board.random,
      ...(shutdownTimeoutMs !== undefined && { shutdownTimeoutMs }),
    });
    this.#bus = bus;
    this.#options = options;
    this.#inner = inner;
    this.#jointStop = jointStop;
    this.heartbeat = inner.heartbeat ?? new Heartbeat(bus.board.clock);
    this.shutdown = this.shutdown.bind(this);
  }

  /** The report of the last stop. */
  get report(): ShutdownReport | undefined {
    return this.#report;
  }

  /** Whether the member's own loop is ready. */
  get ready(): boolean {
    return this.#inner.ready ?? true;
  }

  /** The messages that handlers are working on. */
  override get inFlight(): readonly InFlight[] {
    return this.#inner.inFlight ?? [];
  }

  /** The messages that wait for a handler of the member's own loop. */
  get ahead(): Runnable["ahead"] {
    return this.#inner.ahead;
  }

  /** How far the messages of the member's own loop are. */
  get messagesInFlight(): Runnable["messagesInFlight"] {
    return this.#inner.messagesInFlight;
  }

  /** What the last stop did not complete. The group's outcome is then `timed_out`. */
  get unfinished(): readonly string[] {
    return this.#report === undefined || this.#report.complete
      ? []
      : [incompleteText(this.#report)];
  }

  /** The mailbox of the member's own loop. */
  get mailbox(): Runnable["mailbox"] {
    return this.#inner.mailbox;
  }

  /** The counts of messages, including those that the stop has drained. */
  get counts(): MessageCounts {
    return sumCounts([this.#inner.counts ?? NO_COUNTS, this.#drained()]);
  }

  /** Stops the member in ten steps. Returns false also when the stop was incomplete. */
  override async shutdown(options: ShutdownOptions = {}): Promise<boolean> {
    const ownTimeoutMs = this.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS;
    const timeoutMs = checkDuration("timeoutMs", options.timeoutMs ?? ownTimeoutMs);
    this.#timeoutMs = Math.min(timeoutMs, this.#timeoutMs ?? Infinity);
    const wasRunning = this.running;
    const stopped = await super.shutdown(options);
    return stopped && (!wasRunning || this.#report?.complete !== false);
  }

  /** Cancels the work in flight, and the drain of a stop in progress. */
  override cancel(reason: CancelledError): void {
    this.#inner.cancel?.(reason);
    super.cancel(reason);
  }

  /** Receives no new messages until `resume`. Peers are not notified. */
  override async pause(): Promise<void> {
    await this.#inner.pause?.();
  }

  /** Receives messages again. */
  override resume(): void {
    this.#inner.resume?.();
  }

  /** Releases the messages in flight, because the process is about to end. */
  async abandon(): Promise<void> {
    await this.#inner.abandon?.();
  }

  /** Enrols the member, runs its own loop, and then stops the member. Rejects when a step failed. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    const { stopping, signal } = context;
    this.#report = undefined;
    const member = await this.#bus.enrol({ ...this.#options, runnable: this.#inner });
    const { signal: _, ...innerOptions } = options;
    const stopBegan = deferred();
    const unlink = onAbort(stopping, stopBegan.resolve);
    const run = this.#inner.run(innerOptions);
    try {
      await Promise.race([run, stopBegan.promise]);
    } catch {
      // `await run` below rejects with this error, after the member has stopped.
    }
    unlink();
    const timeoutMs = this.#timeoutMs ?? this.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_TIMEOUT_MS;
    this.#timeoutMs = undefined;
    const stopMs = timeoutMs - reserveOf(timeoutMs);
    const { visibilityTimeoutMs } = options;
    const request = {
      member,
      signal,
      ...(visibilityTimeoutMs === undefined ? {} : { visibilityTimeoutMs }),
    };
    this.#report = await this.#jointStop.join(request, stopMs);
    if (!this.#report.complete) {
      const report = this.#report;
      this.#bus.board.log.warn("coordinated stop incomplete", { agentId: member.id, report });
    }
    await run;
    const failed = this.#report.steps.find(({ outcome }) => outcome === "failed");
    if (failed !== undefined) {
      throw new Error(incompleteText(this.#report), { cause: failed.error });
    }
  }

  #drained(): MessageCounts {
    if (this.#report === undefined) return NO_COUNTS;
    const { processed, failed, archived, handedOver, released } = this.#report;
    const kept = this.#options.archive === undefined ? 0 : archived;
    return {
      received: processed + failed + archived + handedOver + released,
      acknowledged: processed + handedOver + kept,
      released,
      nacked: 0,
      deadLettered: failed + archived - kept,
      cancelled: 0,
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
  return `member "${agentId}" did not stop completely: ${parts.join(", ")}`;
}

/**
 * Creates a loop for each member, for a `LoopGroup`. A SIGTERM then runs the coordinated stop, together for
 * all members that the group stops together. The loop of a member without a `runnable` passes the messages
 * of its inbox to its handlers.
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
  members: readonly MemberOptions[],
  options: CoordinatedShutdownOptions = {},
): Promise<readonly CoordinatedLoop[]> {
  const jointStop = new JointStop(options);
  return await Promise.all(members.map(async (member) => {
    const inbox = member.inbox ?? await bus.inboxOf(member.id);
    const inner = member.runnable ?? inboxLoop(member, inbox, bus);
    return new CoordinatedLoop(bus, { ...member, inbox }, inner, jointStop);
  }));
}

const messageSchema: StandardSchema<BusMessage> = {
  "~standard": {
    version: 1,
    vendor: "lastcall",
    validate(value) {
      const fault = messageFault(value);
      return fault === undefined
        ? { value: value as BusMessage }
        : { issues: [{ message: fault }] };
    },
  },
};

/** Returns the loop of a member without a `runnable`: it passes the messages to the member's handlers. */
export function inboxLoop(
  options: MemberOptions,
  inbox: Mailbox<BusMessage>,
  { board: { clock, random, log } }: Pick<Bus, "board">,
): MailboxLoop<BusMessage> {
  return new MailboxLoop<BusMessage>({
    name: options.id,
    mailbox: inbox,
    schema: messageSchema,
    deadLetter: {},
    clock,
    random,
    log,
    async handler(message, { signal }) {
      const handler = handlerFor(options, message.body.type);
      if (handler === undefined) await archive(options, message);
      else await handler(message.body, { signal });
    },
  });
}
