import { errorText } from "../errors.ts";
import { checkInterval } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { SerializationError } from "../mailbox/errors.ts";
import {
  type AgentMetadata,
  type AgentRecord,
  type AgentState,
  checkAgentId,
  checkAgentState,
  InvalidTransitionError,
  PREDECESSORS,
  type StopNotice,
} from "./agent_state.ts";
import type { BoardStore, StoredAgent } from "./board_store.ts";
import { MemoryStore } from "./memory_store.ts";
import { isObject } from "./_content.ts";
import { type BoardListener, BoardWatch } from "./_board_watch.ts";

/** Options of every board. */
export interface BoardOptions {
  /** An agent that was not heard of for longer is `stale`. @default {30_000} */
  readonly staleAfterMs?: number;
  /** How often a watcher looks although nothing was heard, give or take a quarter. @default {5_000} */
  readonly pollIntervalMs?: number;
  /** What polls and ages are measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of reads that failed; watchers go on. @default {libraryLog} */
  readonly log?: Log;
}

/** Options of {@linkcode Board.setState}. */
export interface SetStateOptions {
  /** Whatever was there before: for an agent that starts anew after a crash. @default {false} */
  readonly force?: boolean;
  /** What peers are told with it. */
  readonly notice?: StopNotice;
}

/** One change of one agent. */
export interface StateChange extends SetStateOptions {
  /** Who changes. */
  readonly agentId: string;
  /** What it changes to. */
  readonly state: AgentState;
  /** Replaces what it had added before. */
  readonly metadata?: AgentMetadata;
}

/**
 * Where agents say what state they are in, and see that of others.
 *
 * @example
 * ```ts
 * import { Board } from "@lastcall/lastcall/coordination";
 *
 * const board = new Board();
 * await board.setState("worker-1", "running");
 * await board.setState("worker-1", "shutting_down", { reason: "deploy" });
 * console.assert((await board.getState("worker-1")).status === "shutting_down");
 * console.assert((await board.getState("worker-2")).status === "unknown");
 * await board.close();
 * ```
 */
export class Board implements AsyncDisposable {
  /** From this age on a sign of life counts for nothing. */
  readonly staleAfterMs: number;
  /** What its polls and ages are measured by. */
  readonly clock: Clock;
  /** Hears of reads that failed. */
  readonly log: Log;
  readonly #store: BoardStore;
  readonly #watch: BoardWatch;

  /** A board in memory, or in a store. Nothing happens before it is used. */
  constructor(options: BoardOptions = {}, store?: BoardStore) {
    this.clock = options.clock ?? systemClock;
    this.log = safeLog(options.log);
    this.staleAfterMs = checkInterval("staleAfterMs", options.staleAfterMs ?? 30_000);
    this.#store = store ?? new MemoryStore({ clock: this.clock });
    this.#watch = new BoardWatch({
      store: this.#store,
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
      toRecord: (stored) => this.#record(stored),
      clock: this.clock,
      log: this.log,
    });
  }

  /**
   * Says what state an agent is in. Rejects with an {@linkcode InvalidTransitionError} when it cannot
   * get there from where it is; setting the state that it has changes its metadata.
   */
  async setState(
    agentId: string,
    state: AgentState,
    metadata: AgentMetadata = {},
    options: SetStateOptions = {},
  ): Promise<void> {
    const [error] = await this.setStates([{ agentId, state, metadata, ...options }]);
    if (error !== undefined) throw error;
  }

  /** The same for many in one call. Each is answered by its own error, or by undefined. */
  async setStates(
    changes: readonly StateChange[],
  ): Promise<readonly (InvalidTransitionError | undefined)[]> {
    const entries = changes.map(({ agentId, state, metadata = {}, notice, force = false }) => ({
      agentId: checkAgentId(agentId),
      state: checkAgentState(state),
      metadata: plain(agentId, metadata),
      notice,
      from: force ? ANY_STATUS : PREDECESSORS[state],
    }));
    if (entries.length === 0) return [];
    const before = await this.#store.put(entries);
    return entries.map(({ agentId, state, from }, i) => {
      const was = before[i]!;
      return from.includes(was) ? undefined : new InvalidTransitionError(agentId, was, state);
    });
  }

  /** What is known of an agent; its `status` tells unknown, corrupt and stale apart. */
  async getState(agentId: string): Promise<AgentRecord> {
    const [stored] = await this.#store.read([checkAgentId(agentId)]);
    return stored === undefined ? { agentId, status: "unknown" } : this.#record(stored);
  }

  /** All agents that have a record, by their ids. */
  async list(): Promise<readonly AgentRecord[]> {
    const { agents } = await this.#store.list();
    const byId = (a: AgentRecord, b: AgentRecord) => a.agentId < b.agentId ? -1 : 1;
    return agents.map((stored) => this.#record(stored)).sort(byId);
  }

  /** These agents are alive: what they said last still holds. */
  async touch(agentIds: readonly string[]): Promise<void> {
    if (agentIds.length > 0) await this.#store.touch(agentIds.map(checkAgentId));
  }

  /** Removes the record of an agent that will not come back. */
  async forget(agentId: string): Promise<void> {
    await this.#store.remove([checkAgentId(agentId)]);
  }

  /**
   * Calls `listener` with what is there now, and then with every change: by notification, and now and
   * then by a look of its own, which finds out who has become stale or was forgotten. Changes that were
   * written in one call come in one call. Returns the remover.
   */
  watch(listener: BoardListener): () => void {
    return this.#watch.add(listener);
  }

  /** Resolves when watchers know what was written before this call. */
  async synced(): Promise<void> {
    await this.#watch.poll();
  }

  /** Stops watching, and lets go of the store. */
  async close(): Promise<void> {
    await this.#watch.close();
    await this.#store.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #record({ agentId, content, raw, ageMs }: StoredAgent): AgentRecord {
    if (content === undefined) return { agentId, status: "corrupt", raw: raw ?? "" };
    const { state, updatedAt, metadata, notice } = content;
    const dead = state !== "shutdown_complete" && ageMs > this.staleAfterMs;
    const status = dead ? "stale" : state;
    return { agentId, status, state, updatedAt, metadata, ...(notice && { notice }) };
  }
}

const ANY_STATUS = ["unknown", "corrupt", "running", "shutting_down", "shutdown_complete"] as const;

/** A copy that holds nothing but JSON, so that every store keeps the same. */
function plain(agentId: string, metadata: AgentMetadata): AgentMetadata {
  let copy: unknown;
  try {
    copy = JSON.parse(JSON.stringify(metadata));
  } catch (error) {
    throw new SerializationError(
      `The metadata of agent "${agentId}" cannot be written as JSON: ${errorText(error)}`,
      { cause: error },
    );
  }
  if (isObject(copy)) return copy;
  throw new TypeError(`Invalid metadata of agent "${agentId}": expected an object`);
}
