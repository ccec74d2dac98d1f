import { checkDuration, MAX_VISIBILITY_MS } from "../_checks.ts";
import { Deadline } from "../lifecycle/deadline.ts";
import { checkBatch, type CoordinationSettings, DEFAULT_SETTINGS } from "./settings.ts";
import type { Agent } from "./agent.ts";
import { AgentStop, type StopRequest } from "./_agent_stop.ts";
import type { ShutdownReport } from "./shutdown_report.ts";

/** Options of {@linkcode shutdownWithCoordination}. */
export interface CoordinatedShutdownOptions extends Partial<CoordinationSettings> {
  /** Why, for the board. @default {"graceful_shutdown"} */
  readonly reason?: string;
  /** Ends the work on messages when aborted; the steps that are left are still made. */
  readonly signal?: AbortSignal;
  /**
   * How long messages that are being drained stay hidden should the process end in the middle. While it
   * lives they are kept, however long the handlers take. @default {300_000, in a loop that of its run}
   */
  readonly visibilityTimeoutMs?: number;
}

/**
 * Stops an agent so that its peers know, and so that no message is lost: ten steps in order, under one
 * deadline. A step that fails or takes too long does not keep those after it from running. The report
 * says how each went, and is `complete` only when all went well and nothing was left.
 *
 * An agent that left something stays `shutting_down` on the board, with `complete: false`, until it
 * starts anew or is taken for dead.
 */
export async function shutdownWithCoordination(
  agent: Agent,
  options: CoordinatedShutdownOptions = {},
): Promise<ShutdownReport> {
  const [report] = await shutdownAllCoordinated([agent], options);
  return report!;
}

/**
 * Stops agents of one bus in parallel, each with its ten steps, all under one deadline. Their peers are
 * told once for all of them, and what they say at the same time is one write to the board.
 */
export async function shutdownAllCoordinated(
  agents: readonly Agent[],
  options: CoordinatedShutdownOptions = {},
): Promise<readonly ShutdownReport[]> {
  const { signal, visibilityTimeoutMs } = options;
  return await stopTogether(
    agents.map((agent) => ({ agent, signal, visibilityTimeoutMs })),
    options,
  );
}

/** The same for agents each of which has a signal of its own. */
export async function stopTogether(
  requests: readonly StopRequest[],
  options: Omit<CoordinatedShutdownOptions, "signal">,
): Promise<readonly ShutdownReport[]> {
  const agents = requests.map(({ agent }) => agent);
  const [first] = agents;
  if (first === undefined) return [];
  const { bus } = first;
  if (agents.some((agent) => agent.bus !== bus)) {
    throw new TypeError("Agents that stop together must be enrolled with the same bus");
  }
  const { clock } = bus.board;
  const settings = {
    timeoutMs: checkDuration("timeoutMs", options.timeoutMs ?? DEFAULT_SETTINGS.timeoutMs),
    drainIntervalMs: checkDuration(
      "drainIntervalMs",
      options.drainIntervalMs ?? DEFAULT_SETTINGS.drainIntervalMs,
    ),
    maxBatch: checkBatch(options.maxBatch ?? DEFAULT_SETTINGS.maxBatch),
  };
  const reason = options.reason ?? "graceful_shutdown";
  let broadcast: Promise<void> | undefined;
  const shared = {
    deadline: new Deadline(settings.timeoutMs, clock),
    settings,
    reason,
    states: bus.states,
    broadcast: () => broadcast ??= bus.broadcastStop(agents, reason),
  };
  for (const { visibilityTimeoutMs = 0 } of requests) {
    checkDuration("visibilityTimeoutMs", visibilityTimeoutMs, MAX_VISIBILITY_MS);
  }
  for (const agent of agents) agent.stopping = true;
  return await Promise.all(
    requests.map((request) => new AgentStop(request, shared).run()),
  );
}
