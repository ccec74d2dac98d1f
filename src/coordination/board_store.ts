/**
 * What a board is kept in. A store keeps and tells; what all boards have in common (checks, staleness,
 * watching) is done above it.
 *
 * @module
 */

import type { AgentMetadata, AgentState, AgentStatus, StopNotice } from "./agent_state.ts";

/** A change of one agent on its way to the board. */
export interface BoardEntry {
  /** Who changes. */
  readonly agentId: string;
  /** What it changes to. */
  readonly state: AgentState;
  /** Replaces what was stored with it. */
  readonly metadata: AgentMetadata;
  /** What it told its peers, kept with its record. */
  readonly notice?: StopNotice | undefined;
  /** It is written only when one of these is there. */
  readonly from: readonly AgentStatus[];
}

/** One agent as it is stored. */
export interface StoredAgent {
  /** Unique within the store. */
  readonly agentId: string;
  /** What could be read; undefined when the record is corrupt. */
  readonly content?: StoredContent | undefined;
  /** What is stored, where it cannot be read. */
  readonly raw?: string | undefined;
  /** How long ago it was written or touched, by the clock of the store. */
  readonly ageMs: number;
}

/** A record that could be read. */
export interface StoredContent {
  /** What it said last. */
  readonly state: AgentState;
  /** In milliseconds since the Unix epoch, by the clock of the store. */
  readonly updatedAt: number;
  /** What it added to its state. */
  readonly metadata: AgentMetadata;
  /** What it told its peers when it began to stop. */
  readonly notice?: StopNotice | undefined;
}

/** What a read gives. */
export interface BoardPage {
  /** All of them, or those that have changed since. */
  readonly agents: readonly StoredAgent[];
  /** For the next read, which gives what has changed since. */
  readonly cursor: unknown;
}

/** The storage of one board. Every call is atomic for each agent. */
export interface BoardStore {
  /**
   * Writes what may be written, and tells for each agent what was there before: a state, `unknown` or
   * `corrupt`.
   */
  put(entries: readonly BoardEntry[]): Promise<readonly AgentStatus[]>;
  /** These agents are alive. Those that are not there stay so. */
  touch(agentIds: readonly string[]): Promise<void>;
  /** Removes records. */
  remove(agentIds: readonly string[]): Promise<void>;
  /** These agents, where they are there. */
  read(agentIds: readonly string[]): Promise<readonly StoredAgent[]>;
  /** All agents, or with the cursor of an earlier page those that were written since. */
  list(since?: unknown): Promise<BoardPage>;
  /**
   * Calls `listener` whenever something may have been written, until the returned function is called. A
   * store that knows which agents were written names them, and only these are read.
   */
  onWake(listener: (agentIds?: readonly string[]) => void): () => void;
  /** Lets go of what is held open. */
  close(): Promise<void>;
}
