/**
 * The states of a member. The stored formats and the `agentId` fields call a member an agent.
 *
 * ```text
 * running ─▶ shutting_down ─▶ shutdown_complete
 * ```
 *
 * @module
 */

import { show } from "../_checks.ts";
import { isErrorNamed } from "../errors.ts";

/** The state that a member has written. */
export type MemberState = "running" | "shutting_down" | "shutdown_complete";

/**
 * The status of a member on a board: its state, `unknown` (no record), `corrupt` (an unreadable record) or
 * `stale` (the member has not been alive for too long, and did not complete a stop).
 */
export type MemberStatus = MemberState | "unknown" | "corrupt" | "stale";

/** JSON data that a member stores beside its state. */
export type MemberMetadata = Readonly<Record<string, unknown>>;

/** What a member has written. */
export interface MemberContent {
  /** The last state. */
  readonly state: MemberState;
  /** When it was written, in milliseconds since the Unix epoch, by the clock of the store. */
  readonly updatedAt: number;
  /** The metadata beside the state. */
  readonly metadata: MemberMetadata;
  /** The notice to its peers, written when it began to stop. */
  readonly notice?: StopNotice | undefined;
}

/** The record of a member on a board. It has no content when the status is `unknown` or `corrupt`. */
export interface MemberRecord extends Partial<MemberContent> {
  /** The id of the member, unique on the board. */
  readonly agentId: string;
  /** The state, or why it is not known. */
  readonly status: MemberStatus;
  /** The stored text, where it cannot be parsed. */
  readonly raw?: string;
}

/** The notice that members are stopping, stored in the record of the first one. */
export interface StopNotice {
  /** Unique for every broadcast. */
  readonly id: string;
  /** Why the members stop. */
  readonly reason: string;
  /** The ids of all members that stop together. */
  readonly agents: readonly string[];
  /** The number of messages that the member has sent to each peer. */
  readonly sequences?: Readonly<Record<string, number>>;
}

/** The states in their order. */
export const MEMBER_STATES: readonly MemberState[] = [
  "running",
  "shutting_down",
  "shutdown_complete",
];

/** The statuses from which a member can enter a state. A stop can begin without a record. */
export const PREDECESSORS: Readonly<Record<MemberState, readonly MemberStatus[]>> = {
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

/** A transition between two states is not allowed. Nothing was written. */
export class InvalidTransitionError extends Error {
  /** {@linkcode isInvalidTransitionError} compares it. */
  override readonly name = "InvalidTransitionError";
  /** The id of the member. */
  readonly agentId: string;
  /** The status on the board. */
  readonly from: MemberStatus;
  /** The requested state. */
  readonly to: MemberState;

  /** Creates the error. */
  constructor(agentId: string, from: MemberStatus, to: MemberState) {
    super(
      `Member "${agentId}" cannot go from ${from} to ${to}: expected it to be ` +
        `${PREDECESSORS[to].join(", ")}; use force after a crash`,
    );
    this.agentId = agentId;
    this.from = from;
    this.to = to;
  }
}

/** Returns true for an {@linkcode InvalidTransitionError} of any copy of the package. */
export function isInvalidTransitionError(error: unknown): error is InvalidTransitionError {
  return isErrorNamed(error, "InvalidTransitionError");
}
