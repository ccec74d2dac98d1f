/**
 * The interface between a board and its storage, and the checks of stored records. What all boards share
 * (checks, staleness, watching) is in `Board`.
 *
 * @module
 */

import {
  MEMBER_STATES,
  type MemberMetadata,
  type MemberState,
  type MemberStatus,
  type StopNotice,
} from "./member_state.ts";

/** A change of one member. */
export interface BoardEntry {
  /** The id of the member. */
  readonly agentId: string;
  /** The new state. */
  readonly state: MemberState;
  /** Replaces the stored metadata. */
  readonly metadata: MemberMetadata;
  /** The notice to its peers, stored in its record. */
  readonly notice?: StopNotice | undefined;
  /** The entry is written only if the member has one of these statuses. */
  readonly from: readonly MemberStatus[];
}

/** One member as it is stored. */
export interface StoredMember {
  /** Unique within the store. */
  readonly agentId: string;
  /** The record; undefined when it is corrupt. */
  readonly content?: StoredContent | undefined;
  /** The stored text, where it cannot be parsed. */
  readonly raw?: string | undefined;
  /** The time since the record was written or touched, in milliseconds, by the clock of the store. */
  readonly ageMs: number;
}

/** A readable record. */
export interface StoredContent {
  /** The last state. */
  readonly state: MemberState;
  /** When it was written, in milliseconds since the Unix epoch, by the clock of the store. */
  readonly updatedAt: number;
  /** The metadata beside the state. */
  readonly metadata: MemberMetadata;
  /** The notice to its peers. */
  readonly notice?: StopNotice | undefined;
}

/** The result of {@linkcode BoardStore.list}. */
export interface BoardPage {
  /** All members, or those that were written since the cursor. */
  readonly members: readonly StoredMember[];
  /** For the next call, which returns the changes since this one. */
  readonly cursor: unknown;
}

/** The storage of one board. Every call is atomic for each member. */
export interface BoardStore {
  /**
   * Writes the allowed entries. Returns the status of each member before: a state, `unknown` or `corrupt`.
   */
  write(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]>;
  /** Records that members are alive. Creates no records. */
  touch(agentIds: readonly string[]): Promise<void>;
  /** Removes records. */
  remove(agentIds: readonly string[]): Promise<void>;
  /** Returns the members that exist. */
  read(agentIds: readonly string[]): Promise<readonly StoredMember[]>;
  /** Returns all members, or those that were written since the cursor of an earlier page. */
  list(since?: unknown): Promise<BoardPage>;
  /**
   * Calls `listener` when members may have been written, until the returned function is called. A store
   * that knows which members were written passes their ids, and only these are read.
   */
  onWake(listener: (agentIds?: readonly string[]) => void): () => void;
  /** Closes connections and files. */
  close(): Promise<void>;
}

/** Returns metadata and notice as the JSON text that stores keep. */
export function detailText(metadata: MemberMetadata, notice: StopNotice | undefined): string {
  return JSON.stringify(notice === undefined ? { metadata } : { metadata, notice });
}

/** Checks stored parts, which scripts may have written. Returns undefined when they are invalid. */
export function contentOf(
  state: unknown,
  updatedAt: number,
  detail: unknown,
): StoredContent | undefined {
  if (!MEMBER_STATES.includes(state as MemberState) || !Number.isFinite(updatedAt)) {
    return undefined;
  }
  const { metadata = {}, notice } = isObject(detail) ? detail : {};
  if (!isObject(detail) || !isObject(metadata)) return undefined;
  return {
    state: state as MemberState,
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
