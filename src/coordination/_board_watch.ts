import type { Cancel, Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { AgentRecord } from "./agent_state.ts";
import type { BoardStore, StoredAgent } from "./board_store.ts";

/** Hears of changes: all that were found by one look, `unknown` for those that are gone. */
export type BoardListener = (changes: readonly AgentRecord[]) => void;

/** What a watch needs. */
export interface BoardWatchOptions {
  readonly store: BoardStore;
  readonly pollIntervalMs: number;
  readonly toRecord: (stored: StoredAgent) => AgentRecord;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Looks at a board for all that watch it in this process, as long as there is somebody. A wake makes it
 * read what was written since the last look; a wake during a look makes one more look. Now and then it
 * reads everything: a wake may get lost, and nobody tells that an agent has died.
 */
export class BoardWatch {
  readonly #options: BoardWatchOptions;
  readonly #listeners = new Set<BoardListener>();
  /** What the listeners were told last: the same is not told twice. */
  readonly #known = new Map<string, { readonly record: AgentRecord; readonly print: string }>();
  #cursor: unknown;
  #looking: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #stopWaking: (() => void) | undefined;
  #cancelPoll: Cancel | undefined;

  constructor(options: BoardWatchOptions) {
    this.#options = options;
  }

  add(listener: BoardListener): () => void {
    const own: BoardListener = (changes) => listener(changes);
    let wanted = true;
    if (this.#stopWaking === undefined) {
      this.#listeners.add(own);
      this.#begin();
    } else {
      queueMicrotask(() => {
        if (!wanted || this.#stopWaking === undefined) return;
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

  /** Reads what is new. A look that has begun may have missed it, so that there is one more. */
  look(): Promise<void> {
    if (this.#looking === undefined) return this.#looking = this.#read();
    return this.#next ??= this.#looking.then(() => {
      this.#next = undefined;
      return this.#looking = this.#read();
    });
  }

  async close(): Promise<void> {
    this.#listeners.clear();
    this.#end();
    await this.#looking;
  }

  #begin(): void {
    this.#stopWaking = this.#options.store.onWake(() => void this.look());
    this.#schedule();
    void this.look();
  }

  #end(): void {
    this.#stopWaking?.();
    this.#stopWaking = undefined;
    this.#cancelPoll?.();
    this.#cursor = undefined;
    this.#known.clear();
  }

  #schedule(): void {
    const { clock, pollIntervalMs } = this.#options;
    this.#cancelPoll = clock.schedule(pollIntervalMs * (0.75 + Math.random() / 2), () => {
      this.#schedule();
      this.#cursor = undefined; // the next look reads everything
      void this.look();
    });
  }

  async #read(): Promise<void> {
    const { store, toRecord, log } = this.#options;
    const since = this.#cursor;
    try {
      const { agents, cursor } = await store.list(since);
      if (this.#stopWaking === undefined) return;
      this.#cursor = cursor;
      const found = agents.map(toRecord);
      this.#tell(since === undefined ? [...found, ...this.#gone(found)] : found);
    } catch (error) {
      log.debug("could not look at the board; it is tried again", { error });
    } finally {
      this.#looking = undefined;
    }
  }

  #gone(all: readonly AgentRecord[]): readonly AgentRecord[] {
    const there = new Set(all.map(({ agentId }) => agentId));
    const gone = [...this.#known.keys()].filter((id) => !there.has(id));
    return gone.map((agentId) => ({ agentId, status: "unknown" as const }));
  }

  #tell(found: readonly AgentRecord[]): void {
    const changes: AgentRecord[] = [];
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

  #call(listener: BoardListener, changes: readonly AgentRecord[]): void {
    try {
      listener(changes);
    } catch (error) {
      this.#options.log.error("a watcher of the board failed", { error });
    }
  }
}
