import type { Clock } from "../clock.ts";
import { pollNowAndThen } from "../engines/_kit/wake_ups.ts";
import type { Log } from "../log.ts";
import type { Random } from "../random.ts";
import type { BoardStore, StoredMember } from "./board_store.ts";
import type { MemberRecord } from "./member_state.ts";

/** Called with the changes that one poll found. A removed member has the status `unknown`. */
export type BoardListener = (changes: readonly MemberRecord[]) => void;

/** Options of a watch. */
export interface BoardWatchOptions {
  readonly store: BoardStore;
  readonly pollIntervalMs: number;
  readonly toRecord: (stored: StoredMember) => MemberRecord;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/**
 * Polls a board for all listeners in this process. A wake-up makes it read what was written since the last
 * poll, or only the members that the wake-up names, so that the cost is proportional to the number of
 * writes. A wake-up during a poll causes one more poll. A timer makes it read everything: a wake-up may get
 * lost, and a dead member sends none.
 */
export class BoardWatch {
  readonly #options: BoardWatchOptions;
  readonly #listeners = new Set<BoardListener>();
  /** The last reported record of each member, so that a record is not reported twice. */
  readonly #known = new Map<string, { readonly record: MemberRecord; readonly print: string }>();
  #cursor: unknown;
  /** The members named by wake-ups since the last poll. */
  readonly #named = new Set<string>();
  /** True when the next poll reads all changes, not only those of named members. */
  #readAll = true;
  #polling: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** Removes the listener of the store and the timer; undefined while no listener watches. */
  #stop: (() => void) | undefined;

  constructor(options: BoardWatchOptions) {
    this.#options = options;
  }

  add(listener: BoardListener): () => void {
    const own: BoardListener = (changes) => listener(changes);
    let wanted = true;
    if (this.#stop === undefined) {
      this.#listeners.add(own);
      this.#begin();
    } else {
      queueMicrotask(() => {
        if (!wanted || this.#stop === undefined) return;
        this.#listeners.add(own);
        if (this.#known.size > 0) this.#call(own, [...this.#known.values()].map((it) => it.record));
      });
    }
    return () => {
      wanted = false;
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.#end();
    };
  }

  /** Reads the changes. Polls again after a poll in progress, which may have missed them. */
  poll(): Promise<void> {
    this.#readAll = true;
    return this.#poll();
  }

  #poll(): Promise<void> {
    if (this.#polling === undefined) return this.#polling = this.#read();
    return this.#next ??= this.#polling.then(() => {
      this.#next = undefined;
      return this.#polling = this.#read();
    });
  }

  async close(): Promise<void> {
    this.#listeners.clear();
    this.#end();
    await this.#polling;
  }

  #begin(): void {
    const { store, clock, pollIntervalMs, random } = this.#options;
    const stopWaking = store.onWake((agentIds) => {
      if (agentIds === undefined) return void this.poll();
      for (const id of agentIds) this.#named.add(id);
      void this.#poll();
    });
    const stopPolling = pollNowAndThen(clock, pollIntervalMs, () => {
      this.#cursor = undefined; // the next poll reads everything
      void this.poll();
    }, random);
    this.#stop = () => {
      stopWaking();
      stopPolling();
    };
    void this.poll();
  }

  #end(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.#cursor = undefined;
    this.#named.clear();
    this.#known.clear();
  }

  async #read(): Promise<void> {
    const { store, log } = this.#options;
    const since = this.#cursor;
    const named = [...this.#named];
    const all = this.#readAll || since === undefined;
    this.#named.clear();
    this.#readAll = false;
    try {
      const page = all ? await store.list(since) : { members: await store.read(named) };
      if (this.#stop === undefined) return;
      if ("cursor" in page) this.#cursor = page.cursor;
      const found = page.members.map(this.#options.toRecord);
      if (!all) this.#notify([...found, ...this.#gone(found, named)]);
      else this.#notify(since === undefined ? [...found, ...this.#gone(found)] : found);
    } catch (error) {
      this.#readAll = true; // the next poll finds the missed changes
      log.debug("board read failed; the next poll retries", { error });
    } finally {
      this.#polling = undefined;
    }
  }

  /** Returns the known members among `candidates` that were not found. */
  #gone(
    found: readonly MemberRecord[],
    candidates: Iterable<string> = this.#known.keys(),
  ): readonly MemberRecord[] {
    const there = new Set(found.map(({ agentId }) => agentId));
    const gone = [...candidates].filter((id) => this.#known.has(id) && !there.has(id));
    return gone.map((agentId) => ({ agentId, status: "unknown" as const }));
  }

  #notify(found: readonly MemberRecord[]): void {
    const changes: MemberRecord[] = [];
    for (const record of found) {
      const { agentId, status, updatedAt, metadata, notice, raw } = record;
      const print = JSON.stringify([status, updatedAt, metadata, notice?.id, raw]);
      if (this.#known.get(agentId)?.print === print) continue;
      if (status === "unknown") this.#known.delete(agentId);
      else this.#known.set(agentId, { record, print });
      changes.push(record);
    }
    if (changes.length === 0) return;
    for (const listener of [...this.#listeners]) this.#call(listener, changes);
  }

  #call(listener: BoardListener, changes: readonly MemberRecord[]): void {
    try {
      listener(changes);
    } catch (error) {
      this.#options.log.error("board listener failed", { error });
    }
  }
}
