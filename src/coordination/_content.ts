import type { AgentMetadata, AgentState, StopNotice } from "./agent_state.ts";
import { AGENT_STATES } from "./agent_state.ts";
import type { StoredContent } from "./board_store.ts";

/** Returns metadata and notice as the JSON text that stores keep. */
export function detailText(metadata: AgentMetadata, notice: StopNotice | undefined): string {
  return JSON.stringify(notice === undefined ? { metadata } : { metadata, notice });
}

/** Checks stored parts, which scripts may have written. Returns undefined when they are invalid. */
export function contentOf(
  state: unknown,
  updatedAt: number,
  detail: unknown,
): StoredContent | undefined {
  if (!AGENT_STATES.includes(state as AgentState) || !Number.isFinite(updatedAt)) return undefined;
  const { metadata = {}, notice } = isObject(detail) ? detail : {};
  if (!isObject(detail) || !isObject(metadata)) return undefined;
  return {
    state: state as AgentState,
    updatedAt,
    metadata,
    notice: isNotice(notice) ? notice : undefined,
  };
}

/** Parses a detail that is JSON text, and checks it like `contentOf`. */
export function parseContent(
  state: unknown,
  updatedAt: number,
  detail: string,
): StoredContent | undefined {
  try {
    return contentOf(state, updatedAt, JSON.parse(detail));
  } catch {
    return undefined; // the board reports it as corrupt, with the stored text
  }
}

/** Returns true for an object that is not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNotice(value: unknown): value is StopNotice {
  return isObject(value) && typeof value.id === "string" && typeof value.reason === "string" &&
    Array.isArray(value.agents);
}
