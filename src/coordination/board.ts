import { checkInterval, checkOneOf } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { errorText } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { SerializationError } from "../mailbox/errors.ts";
import { type Random, systemRandom } from "../random.ts";
import { type BoardListener, BoardWatch } from "./_board_watch.ts";
import {
  type BoardEntry,
  type BoardStore,
  isObject,
  MemoryStore,
  type StoredMember,
} from "./board_store.ts";
import {
  checkAgentId,
  InvalidTransitionError,
  MEMBER_STATES,
  type MemberMetadata,
  type MemberRecord,
  type MemberState,
  PREDECESSORS,
  type StopNotice,
} from "./member_state.ts";

/** Options of every board. */
export interface BoardOptions {
  /** A member that was not alive for longer is `stale`, in milliseconds. @default {30_000} */
  readonly staleAfterMs?: number;
  /** How often a watcher polls without a wake-up, give or take a quarter, in milliseconds. @default {5_000} */
  readonly pollIntervalMs?: number;
  /** Measures polls and ages. @default {systemClock} */
  readonly clock?: Clock;
  /** The source of message ids and of the times between polls. @default {systemRandom} */
  readonly random?: Random;
  /** Receives failed reads, after which watchers retry. @default {libraryLog} */
  readonly log?: Log;
}

/** Options of {@linkcode Board.setState}. */
export interface SetStateOptions {
  /** Allows any earlier state: for a member that starts again after a crash. @default {false} */
  readonly force?: boolean;
  /** The notice to its peers, stored in its record. */
  readonly notice?: StopNotice;
}

/** A change of one member. */
export interface StateChange extends SetStateOptions {
  /** The id of the member. */
  readonly agentId: string;
  /** The new state. */
  readonly state: MemberState;
  /** Replaces the stored metadata. @default {{}} */
  readonly metadata?: MemberMetadata;
}

/**
 * Stores the states of members, and shows them to their peers.
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
  /** The age from which a record is stale, in milliseconds. */
  readonly staleAfterMs: number;
  /** Measures polls and ages. */
  readonly clock: Clock;
  /** The source of message ids and of the times between polls. */
  readonly random: Random;
  /** Receives failed reads. */
  readonly log: Log;
  readonly #store: BoardStore;
  readonly #watch: BoardWatch;
  /** The changes for the next write. */
  #waiting: BoardEntry[] = [];
  #nextWrite: Promise<WriteErrors> | undefined;
  #lastWrite: Promise<unknown> | undefined;

  /** Creates a board in `store`, or in memory. It reads and writes nothing before its first use. */
  constructor(options: BoardOptions & { readonly store?: BoardStore } = {}) {
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? systemRandom;
    this.log = safeLog(options.log);
    this.staleAfterMs = checkInterval("staleAfterMs", options.staleAfterMs ?? 30_000);
    this.#store = options.store ?? new MemoryStore({ clock: this.clock });
    this.#watch = new BoardWatch({
      store: this.#store,
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
      toRecord: (stored) => this.#record(stored),
      clock: this.clock,
      random: this.random,
      log: this.log,
    });
  }

  /**
   * Writes the state of a member. Setting the same state again replaces its metadata. Calls of the same
   * tick, and those made during a write, share the next write.
   *
   * @throws {InvalidTransitionError} if the member cannot enter this state from its current one
   */
  async setState(
    agentId: string,
    state: MemberState,
    metadata: MemberMetadata = {},
    options: SetStateOptions = {},
  ): Promise<void> {
    const index = this.#waiting.push(entryOf({ agentId, state, metadata, ...options })) - 1;
    const errors = await (this.#nextWrite ??= this.#writeWaiting());
    if (errors[index] !== undefined) throw errors[index];
  }

  /** Writes several states with one call. Returns for each its error, or undefined. */
  async setStates(changes: readonly StateChange[]): Promise<WriteErrors> {
    return await this.#write(changes.map(entryOf));
  }

  /** Returns the record of a member. Its `status` distinguishes unknown, corrupt and stale. */
  async getState(agentId: string): Promise<MemberRecord> {
    const [stored] = await this.#store.read([checkAgentId(agentId)]);
    return stored === undefined ? { agentId, status: "unknown" } : this.#record(stored);
  }

  /** Returns the records of all members, ordered by id. */
  async list(): Promise<readonly MemberRecord[]> {
    const { members } = await this.#store.list();
    const byId = (a: MemberRecord, b: MemberRecord) => a.agentId < b.agentId ? -1 : 1;
    return members.map((stored) => this.#record(stored)).sort(byId);
  }

  /** Records that these members are alive, so that they do not become stale. */
  async touch(agentIds: readonly string[]): Promise<void> {
    if (agentIds.length > 0) await this.#store.touch(agentIds.map(checkAgentId));
  }

  /** Removes the record of a member that will not start again. */
  async forget(agentId: string): Promise<void> {
    await this.#store.remove([checkAgentId(agentId)]);
  }

  /**
   * Calls `listener` with the current records, and then with every change. Changes of one write arrive in
   * one call. A poll finds members that became stale or were forgotten. Returns the remover.
   */
  watch(listener: BoardListener): () => void {
    return this.#watch.add(listener);
  }

  /** Resolves when watchers have received what was written before this call. */
  async synced(): Promise<void> {
    await this.#watch.poll();
  }

  /** Stops watching and closes the store. */
  async close(): Promise<void> {
    await this.#watch.close();
    await this.#store.close();
  }

  /** Calls `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #writeWaiting(): Promise<WriteErrors> {
    await this.#lastWrite; // also collects the changes of the same tick
    const write = this.#write(this.#waiting);
    this.#waiting = [];
    this.#nextWrite = undefined;
    this.#lastWrite = write.catch(() => {}); // the calls of `setState` reject
    return await write;
  }

  async #write(entries: readonly BoardEntry[]): Promise<WriteErrors> {
    if (entries.length === 0) return [];
    const before = await this.#store.write(entries);
    return entries.map(({ agentId, state, from }, i) => {
      const was = before[i]!;
      return from.includes(was) ? undefined : new InvalidTransitionError(agentId, was, state);
    });
  }

  #record({ agentId, content, raw, ageMs }: StoredMember): MemberRecord {
    if (content === undefined) return { agentId, status: "corrupt", raw: raw ?? "" };
    const { state, updatedAt, metadata, notice } = content;
    const dead = state !== "shutdown_complete" && ageMs > this.staleAfterMs;
    const status = dead ? "stale" : state;
    return { agentId, status, state, updatedAt, metadata, ...(notice && { notice }) };
  }
}

/** For each change its error, or undefined. */
export type WriteErrors = readonly (InvalidTransitionError | undefined)[];

const ANY_STATUS = ["unknown", "corrupt", "running", "shutting_down", "shutdown_complete"] as const;

function entryOf(
  { agentId, state, metadata = {}, notice, force = false }: StateChange,
): BoardEntry {
  return {
    agentId: checkAgentId(agentId),
    state: checkOneOf("state", state, MEMBER_STATES),
    metadata: plain(agentId, metadata),
    notice,
    from: force ? ANY_STATUS : PREDECESSORS[state],
  };
}

/** Returns a copy that holds nothing but JSON, so that every store keeps the same. */
function plain(agentId: string, metadata: MemberMetadata): MemberMetadata {
  let copy: unknown;
  try {
    copy = JSON.parse(JSON.stringify(metadata));
  } catch (error) {
    throw new SerializationError(
      `The metadata of member "${agentId}" cannot be written as JSON: ${errorText(error)}`,
      { cause: error },
    );
  }
  if (isObject(copy)) return copy;
  throw new TypeError(`Invalid metadata of member "${agentId}": expected an object`);
}
