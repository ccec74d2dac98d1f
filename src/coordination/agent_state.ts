/**
 * The states of an agent.
 *
 * ```text
 * running ─▶ shutting_down ─▶ shutdown_complete
 * ```
 *
 * @module
 */

import { checkOneOf, show } from "../_checks.ts";

/** The state that an agent has written. */
export type AgentState = "running" | "shutting_down" | "shutdown_complete";

/**
 * The status of an agent on a board: its state, `unknown` (no record), `corrupt` (an unreadable record) or
 * `stale` (the agent has not been alive for too long, and did not complete a stop).
 */
export type AgentStatus = AgentState | "unknown" | "corrupt" | "stale";

/** JSON data that an agent stores beside its state. */
export type AgentMetadata = Readonly<Record<string, unknown>>;

/** The record of an agent on a board. */
export interface AgentRecord {
  /** The id of the agent, unique on the board. */
  readonly agentId: string;
  /** The state, or why it is not known. */
  readonly status: AgentStatus;
  /** The last state; undefined without a readable record. */
  readonly state?: AgentState;
  /** When the state was written, in milliseconds since the Unix epoch, by the board's clock. */
  readonly updatedAt?: number;
  /** The metadata beside the state. */
  readonly metadata?: AgentMetadata;
  /** The notice to its peers, written when it began to stop. */
  readonly notice?: StopNotice;
  /** The stored text, where it cannot be parsed. */
  readonly raw?: string;
}

/** The notice that agents are stopping, stored in the record of the first agent of the group. */
export interface StopNotice {
  /** Unique for every broadcast. */
  readonly id: string;
  /** Why the agents stop. */
  readonly reason: string;
  /** The ids of all agents that stop together. */
  readonly agents: readonly string[];
  /** The number of messages that the agent has sent to each peer. */
  readonly sequences?: Readonly<Record<string, number>>;
}

/** The states in their order. */
export const AGENT_STATES: readonly AgentState[] = [
  "running",
  "shutting_down",
  "shutdown_complete",
];

/** The statuses from which an agent can enter a state. A stop can begin without a record. */
export const PREDECESSORS: Readonly<Record<AgentState, readonly AgentStatus[]>> = {
  running: ["unknown", "corrupt", "running", "shutdown_complete"],
  shutting_down: ["unknown", "corrupt", "running", "shutting_down"],
  shutdown_complete: ["shutting_down", "shutdown_complete"],
};

/** Returns `agentId` if it is valid. It becomes part of keys and file names. */
export function checkAgentId(agentId: string): string {
  if (typeof agentId === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(agentId)) return agentId;
  throw new TypeError(
    `Invalid agent id: expected 1 to 64 letters, digits, _ or -, got ${show(agentId)}`,
  );
}

/** Returns `state` if it is valid. */
export function checkAgentState(state: AgentState): AgentState {
  return checkOneOf("state", state, AGENT_STATES);
}

/** A transition between two states is not allowed. Nothing was written. */
export class InvalidTransitionError extends Error {
  /** {@linkcode isInvalidTransitionError} compares it. */
  override readonly name = "InvalidTransitionError";
  /** The id of the agent. */
  readonly agentId: string;
  /** The status on the board. */
  readonly from: AgentStatus;
  /** The requested state. */
  readonly to: AgentState;

  /** Creates the error. */
  constructor(agentId: string, from: AgentStatus, to: AgentState) {
    super(
      `Agent "${agentId}" cannot go from ${from} to ${to}: expected it to be ` +
        `${PREDECESSORS[to].join(", ")}`,
    );
    this.agentId = agentId;
    this.from = from;
    this.to = to;
  }
}

/** Returns true for an {@linkcode InvalidTransitionError} of any copy of the package. */
export function isInvalidTransitionError(error: unknown): error is InvalidTransitionError {
  return error instanceof Error && error.name === "InvalidTransitionError";
}
