import type { Agent } from "./agent.ts";
import type { AgentRecord, StopNotice } from "./agent_state.ts";
import type { Board } from "./board.ts";
import type { ShutdownNotification } from "./envelope.ts";

/** Turns what the board says into notifications for the agents of this process, each of them once. */
export class Notices {
  readonly #board: Board;
  /** What was heard last, by who said it. */
  readonly #heard = new Map<string, string>();

  constructor(board: Board) {
    this.#board = board;
  }

  /** Tells `agents` of the stops among these changes. With nobody to tell, they only count as heard. */
  deliver(changes: readonly AgentRecord[], agents: () => readonly Agent[]): void {
    for (const record of changes) {
      const { agentId, status, notice } = record;
      if (status === "unknown") this.#heard.delete(agentId);
      if (notice === undefined || this.#heard.get(agentId) === notice.id) continue;
      this.#heard.set(agentId, notice.id);
      // It may have stopped before anybody came to look.
      if (status !== "shutting_down" && status !== "shutdown_complete") continue;
      const leaving = new Set(notice.agents);
      for (const agent of agents()) {
        if (agent.stopping || leaving.has(agent.id)) continue;
        if (agent.options.onNotification !== undefined) void this.#tell(agent, record, notice);
      }
    }
  }

  async #tell(agent: Agent, from: AgentRecord, notice: StopNotice): Promise<void> {
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
