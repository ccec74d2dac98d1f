import type { AgentMetadata, AgentState, StopNotice } from "./agent_state.ts";
import { AGENT_STATES } from "./agent_state.ts";
import type { StoredContent } from "./board_store.ts";

/** What a store keeps beside the state and its time, as text. */
export function detailText(metadata: AgentMetadata, notice: StopNotice | undefined): string {
  return JSON.stringify(notice === undefined ? { metadata } : { metadata, notice });
}

/** Reads parts that anybody may have written. Undefined when they make no sense. */
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

/** The same for a detail that is text. */
export function parseContent(
  state: unknown,
  updatedAt: number,
  detail: string,
): StoredContent | undefined {
  try {
    return contentOf(state, updatedAt, JSON.parse(detail));
  } catch {
    return undefined; // whoever reads is told that it is corrupt, and what is there
  }
}

/** True for an object that is no array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNotice(value: unknown): value is StopNotice {
  return isObject(value) && typeof value.id === "string" && typeof value.reason === "string" &&
    Array.isArray(value.agents);
}
