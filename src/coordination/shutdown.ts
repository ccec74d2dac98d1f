import { checkCount, checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { nextTurn } from "../clock.ts";
import { Deadline } from "../lifecycle/deadline.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import { MemberStop, type StopRequest } from "./_member_stop.ts";
import type { Member } from "./member.ts";
import { type CoordinationSettings, DEFAULT_SETTINGS } from "./settings.ts";
import type { ShutdownReport } from "./shutdown_steps.ts";

/** Options of {@linkcode shutdownWithCoordination}. */
export interface CoordinatedShutdownOptions extends Partial<CoordinationSettings> {
  /** The reason on the board. @default {"graceful_shutdown"} */
  readonly reason?: string;
  /** Ends the handling of messages when it aborts. The remaining steps still run. */
  readonly signal?: AbortSignal;
  /**
   * How long messages in the drain stay hidden when the process is killed, in milliseconds. While the
   * process runs, their leases are extended. @default {300_000, in a loop that of its run}
   */
  readonly visibilityTimeoutMs?: number;
}

/**
 * Stops a member in ten steps, under one deadline: its peers are notified, and no message is lost. After a
 * step that fails or times out the next one runs. The report has the outcome of each step.
 *
 * A member that left messages or failed a step stays `shutting_down` on the board, with `complete: false`,
 * until it starts again or becomes stale.
 *
 * @throws {RangeError} if an option is invalid
 */
export async function shutdownWithCoordination(
  member: Member,
  options: CoordinatedShutdownOptions = {},
): Promise<ShutdownReport> {
  const [report] = await shutdownAllCoordinated([member], options);
  return report!;
}

/**
 * Stops members of one bus in parallel, each in ten steps, all under one deadline. Their peers get one
 * notification for all of them, and state changes of the same time share one write to the board.
 *
 * @throws {TypeError} if the members belong to different buses
 */
export async function shutdownAllCoordinated(
  members: readonly Member[],
  options: CoordinatedShutdownOptions = {},
): Promise<readonly ShutdownReport[]> {
  const { signal, visibilityTimeoutMs } = options;
  return await stopTogether(
    members.map((member) => ({ member, signal, visibilityTimeoutMs })),
    options,
  );
}

/** Stops members together whose stops begin in the same turn, so that their peers get one notice. */
export class JointStop {
  readonly #options: CoordinatedShutdownOptions;
  #requests: StopRequest[] = [];
  #timeoutMs = Infinity;
  #reports: Promise<readonly ShutdownReport[]> | undefined;

  constructor(options: CoordinatedShutdownOptions) {
    this.#options = options;
  }

  /** Stops a member within `timeoutMs`. The shortest timeout of the members applies to all. */
  async join(request: StopRequest, timeoutMs: number): Promise<ShutdownReport> {
    const index = this.#requests.push(request) - 1;
    this.#timeoutMs = Math.min(this.#timeoutMs, timeoutMs);
    const reports = await (this.#reports ??= this.#stop());
    return reports[index]!;
  }

  async #stop(): Promise<readonly ShutdownReport[]> {
    await nextTurn(this.#requests[0]?.member.bus.board.clock);
    const { visibilityTimeoutMs } = this.#options;
    const requests = this.#requests.map((it) => ({ visibilityTimeoutMs, ...it }));
    const options = { ...this.#options, timeoutMs: this.#timeoutMs };
    this.#requests = [];
    this.#timeoutMs = Infinity;
    this.#reports = undefined;
    return await stopTogether(requests, options);
  }
}

async function stopTogether(
  requests: readonly StopRequest[],
  options: Omit<CoordinatedShutdownOptions, "signal">,
): Promise<readonly ShutdownReport[]> {
  const members = requests.map(({ member }) => member);
  const [first] = members;
  if (first === undefined) return [];
  const { bus } = first;
  if (members.some((member) => member.bus !== bus)) {
    throw new TypeError("Members that stop together must be enrolled with the same bus");
  }
  const defaults = DEFAULT_SETTINGS;
  const settings = {
    timeoutMs: checkDuration("timeoutMs", options.timeoutMs ?? defaults.timeoutMs),
    drainIntervalMs: checkDuration(
      "drainIntervalMs",
      options.drainIntervalMs ?? defaults.drainIntervalMs,
    ),
    maxBatch: checkCount("maxBatch", options.maxBatch ?? defaults.maxBatch, 1, MAX_BATCH),
  };
  for (const { visibilityTimeoutMs = 0 } of requests) {
    checkDuration("visibilityTimeoutMs", visibilityTimeoutMs, MAX_VISIBILITY_MS);
  }
  const { reason = "graceful_shutdown" } = options;
  let broadcast: Promise<void> | undefined;
  const shared = {
    deadline: new Deadline(settings.timeoutMs, bus.board.clock),
    settings,
    reason,
    broadcast: () => broadcast ??= bus.broadcastStop(members, reason),
  };
  for (const member of members) member.beginStop();
  return await Promise.all(requests.map((request) => new MemberStop(request, shared).run()));
}
