/**
 * What is known of an agent.
 *
 * ```text
 * running ─▶ shutting_down ─▶ shutdown_complete
 * ```
 *
 * @module
 */

import { checkOneOf, show } from "../_checks.ts";

/** What an agent says of itself. */
export type AgentState = "running" | "shutting_down" | "shutdown_complete";

/**
 * What a board answers. Beside the states: `unknown` (there is no record), `corrupt` (there is one that
 * cannot be read) and `stale` (its agent has not been heard of for too long, and never said goodbye).
 */
export type AgentStatus = AgentState | "unknown" | "corrupt" | "stale";

/** What an agent adds to its state: anything that can be written as JSON. */
export type AgentMetadata = Readonly<Record<string, unknown>>;

/** An agent as a board knows it. */
export interface AgentRecord {
  /** Unique among those that share a board. */
  readonly agentId: string;
  /** Its state, or why there is none to tell. */
  readonly status: AgentStatus;
  /** What it said last; undefined when nothing is known or readable. */
  readonly state?: AgentState;
  /** When it said so, in milliseconds since the Unix epoch, by the board's own clock. */
  readonly updatedAt?: number;
  /** What it added to its state. */
  readonly metadata?: AgentMetadata;
  /** What it told its peers when it began to stop. */
  readonly notice?: StopNotice;
  /** What is stored, where it cannot be read. */
  readonly raw?: string;
}

/** The word that agents are stopping. Of those that stop together, the first has it in its record. */
export interface StopNotice {
  /** Unique for every broadcast. */
  readonly id: string;
  /** Why they stop, as whoever stopped them put it. */
  readonly reason: string;
  /** All that stop together. */
  readonly agents: readonly string[];
  /** How many messages the agent has sent to each peer before. */
  readonly sequences?: Readonly<Record<string, number>>;
}

/** The states in their order. */
export const AGENT_STATES: readonly AgentState[] = [
  "running",
  "shutting_down",
  "shutdown_complete",
];

/** What may be on the board when an agent enters a state. A stop can begin where nothing is known. */
export const PREDECESSORS: Readonly<Record<AgentState, readonly AgentStatus[]>> = {
  running: ["unknown", "corrupt", "running", "shutdown_complete"],
  shutting_down: ["unknown", "corrupt", "running", "shutting_down"],
  shutdown_complete: ["shutting_down", "shutdown_complete"],
};

/** Refuses what cannot be the name of an agent: it becomes part of keys and file names. */
export function checkAgentId(agentId: string): string {
  if (typeof agentId === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(agentId)) return agentId;
  throw new TypeError(
    `Invalid agent id: expected 1 to 64 letters, digits, _ or -, got ${show(agentId)}`,
  );
}

/** Refuses what is no state. */
export function checkAgentState(state: AgentState): AgentState {
  return checkOneOf("state", state, AGENT_STATES);
}

/** An agent cannot go from where it is to where it was told. Nothing was written. */
export class InvalidTransitionError extends Error {
  /** What {@linkcode isInvalidTransitionError} looks at. */
  override readonly name = "InvalidTransitionError";
  /** The agent that was to change. */
  readonly agentId: string;
  /** What the board had of it. */
  readonly from: AgentStatus;
  /** What it was told to become. */
  readonly to: AgentState;

  /** With all that the message tells. */
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

/** True for an {@linkcode InvalidTransitionError} of any copy of the package. */
export function isInvalidTransitionError(error: unknown): error is InvalidTransitionError {
  return error instanceof Error && error.name === "InvalidTransitionError";
}
