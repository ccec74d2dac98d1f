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
 * read what was written since the last look, or only the agents that the wake names: the cost of many
 * writes is in proportion to their number. A wake during a look makes one more look. Now and then it reads
 * everything: a wake may get lost, and nobody tells that an agent has died.
 */
export class BoardWatch {
  readonly #options: BoardWatchOptions;
  readonly #listeners = new Set<BoardListener>();
  /** What the listeners were told last: the same is not told twice. */
  readonly #known = new Map<string, { readonly record: AgentRecord; readonly print: string }>();
  #cursor: unknown;
  /** Named by wakes since the last look. */
  readonly #named = new Set<string>();
  /** The next look is for everything that is new, named or not. */
  #wide = true;
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
    this.#wide = true;
    return this.#look();
  }

  #look(): Promise<void> {
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
    this.#stopWaking = this.#options.store.onWake((agentIds) => {
      if (agentIds === undefined) return void this.look();
      for (const id of agentIds) this.#named.add(id);
      void this.#look();
    });
    this.#schedule();
    void this.look();
  }

  #end(): void {
    this.#stopWaking?.();
    this.#stopWaking = undefined;
    this.#cancelPoll?.();
    this.#cursor = undefined;
    this.#named.clear();
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
    const { store, log } = this.#options;
    const since = this.#cursor;
    const named = [...this.#named];
    const wide = this.#wide || since === undefined;
    this.#named.clear();
    this.#wide = false;
    try {
      const page = wide ? await store.list(since) : { agents: await store.read(named) };
      if (this.#stopWaking === undefined) return;
      if ("cursor" in page) this.#cursor = page.cursor;
      const found = page.agents.map(this.#options.toRecord);
      if (!wide) this.#tell([...found, ...this.#gone(found, named)]);
      else this.#tell(since === undefined ? [...found, ...this.#gone(found)] : found);
    } catch (error) {
      this.#wide = true; // the next look finds what this one was for
      log.debug("could not look at the board; it is tried again", { error });
    } finally {
      this.#looking = undefined;
    }
  }

  /** Those of `candidates` that were known and were not found. */
  #gone(
    found: readonly AgentRecord[],
    candidates: Iterable<string> = this.#known.keys(),
  ): readonly AgentRecord[] {
    const there = new Set(found.map(({ agentId }) => agentId));
    const gone = [...candidates].filter((id) => this.#known.has(id) && !there.has(id));
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
