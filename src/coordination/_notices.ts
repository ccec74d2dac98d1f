import type { Agent } from "./agent.ts";
import type { AgentRecord, StopNotice } from "./agent_state.ts";
import type { Board } from "./board.ts";
import type { ShutdownNotification } from "./envelope.ts";

/** Delivers each stop notice on the board once to the agents of this process. */
export class Notices {
  readonly #board: Board;
  /** The id of the last delivered notice, by sender. */
  readonly #delivered = new Map<string, string>();

  constructor(board: Board) {
    this.#board = board;
  }

  /** Notifies `agents` of the stops among these changes, and marks the notices as delivered. */
  deliver(changes: readonly AgentRecord[], agents: () => readonly Agent[]): void {
    for (const record of changes) {
      const { agentId, status, notice } = record;
      if (status === "unknown") this.#delivered.delete(agentId);
      if (notice === undefined || this.#delivered.get(agentId) === notice.id) continue;
      this.#delivered.set(agentId, notice.id);
      // The notice may be from an earlier stop.
      if (status !== "shutting_down" && status !== "shutdown_complete") continue;
      const leaving = new Set(notice.agents);
      for (const agent of agents()) {
        if (agent.stopping || leaving.has(agent.id)) continue;
        if (agent.options.onNotification !== undefined) void this.#notify(agent, record, notice);
      }
    }
  }

  async #notify(agent: Agent, from: AgentRecord, notice: StopNotice): Promise<void> {
    try {
      await agent.options.onNotification!(notification(from, notice, agent.id));
    } catch (error) {
      this.#board.log.error(`agent "${agent.id}" failed to take a notification`, { error });
    }
  }
}

function notification(
  { agentId, updatedAt = 0 }: AgentRecord,
  { id, reason, agents, sequences = {} }: StopNotice,
  to: string,
): ShutdownNotification {
  return {
    version: "1.0",
    msg_id: `${id}-${to}`,
    from: agentId,
    to,
    timestamp: Math.floor(updatedAt / 1_000),
    sequence: (sequences[to] ?? 0) + 1,
    type: "shutdown_notification",
    payload: {
      shutting_down_agent: agentId,
      action: "pause_sending",
      reason,
      ...(agents.length > 1 && { shutting_down_agents: agents }),
    },
    requires_ack: false,
  };
}
