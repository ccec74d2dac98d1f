/**
 * The interface between a board and its storage, the checks of stored records, and the store in memory. What
 * all boards share (checks, staleness, watching) is in `Board`.
 *
 * @module
 */

import { type Clock, systemClock } from "../clock.ts";
import {
  MEMBER_STATES,
  type MemberContent,
  type MemberMetadata,
  type MemberState,
  type MemberStatus,
  type StopNotice,
} from "./member_state.ts";

/** A change of one member. */
export interface BoardEntry extends Omit<MemberContent, "updatedAt"> {
  /** The id of the member. */
  readonly agentId: string;
  /** The entry is written only if the member has one of these statuses. */
  readonly from: readonly MemberStatus[];
}

/** One member as it is stored. */
export interface StoredMember {
  /** Unique within the store. */
  readonly agentId: string;
  /** What the member has written; undefined when it is corrupt. */
  readonly content?: MemberContent | undefined;
  /** The stored text, where it cannot be parsed. */
  readonly raw?: string | undefined;
  /** The time since the record was written or touched, in milliseconds, by the clock of the store. */
  readonly ageMs: number;
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
): MemberContent | undefined {
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
): MemberContent | undefined {
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
  if (!isObject(value)) return false;
  const { id, reason, agents, sequences = {} } = value;
  const areTexts = Array.isArray(agents) &&
    [id, reason, ...agents].every((it) => typeof it === "string");
  return areTexts && isObject(sequences) && Object.values(sequences).every(Number.isFinite);
}

interface Entry {
  readonly content: MemberContent;
  readonly version: number;
  seenAt: number;
}

/** Stores a board in memory. Boards that share the store show the same members. */
export class MemoryStore implements BoardStore {
  readonly #clock: Clock;
  /** Ordered by version: a write moves its member to the end. */
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();
  #version = 0;

  /** Creates an empty store. */
  constructor(options: { readonly clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** Writes the allowed changes, and returns the status of each member before. */
  write(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]> {
    const before = entries.map((entry) => this.#write(entry));
    this.#wake();
    return Promise.resolve(before);
  }

  /** Records that members are alive, without calling the listeners. */
  touch(agentIds: readonly string[]): Promise<void> {
    for (const id of agentIds) {
      const entry = this.#entries.get(id);
      if (entry !== undefined) entry.seenAt = this.#clock.monotonic();
    }
    return Promise.resolve();
  }

  /** Removes members, and calls the listeners. */
  remove(agentIds: readonly string[]): Promise<void> {
    for (const id of agentIds) this.#entries.delete(id);
    this.#wake();
    return Promise.resolve();
  }

  /** Returns the members that exist. */
  read(agentIds: readonly string[]): Promise<readonly StoredMember[]> {
    return Promise.resolve(agentIds.flatMap((id) => {
      const entry = this.#entries.get(id);
      return entry === undefined ? [] : [this.#stored(id, entry)];
    }));
  }

  /** Returns the changes since the cursor of an earlier page, or all members. */
  list(since: unknown = 0): Promise<BoardPage> {
    const all = [...this.#entries].filter(([, { version }]) => version > (since as number));
    return Promise.resolve({
      members: all.map(([id, entry]) => this.#stored(id, entry)),
      cursor: this.#version,
    });
  }

  /** Calls `listener` after every change of a state. Returns the remover. */
  onWake(listener: () => void): () => void {
    const own = () => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Does nothing: other boards may share the store. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #write({ agentId, state, metadata, notice, from }: BoardEntry): MemberStatus {
    const before = this.#entries.get(agentId)?.content.state ?? "unknown";
    if (!from.includes(before)) return before;
    const content = { state, metadata, notice, updatedAt: this.#clock.now() };
    this.#entries.delete(agentId);
    this.#entries.set(agentId, {
      content,
      version: ++this.#version,
      seenAt: this.#clock.monotonic(),
    });
    return before;
  }

  #wake(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  #stored(agentId: string, { content, seenAt }: Entry): StoredMember {
    return { agentId, content, ageMs: this.#clock.monotonic() - seenAt };
  }
}
