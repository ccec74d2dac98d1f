import { type Clock, systemClock } from "../clock.ts";
import type { AgentStatus } from "./agent_state.ts";
import type {
  BoardEntry,
  BoardPage,
  BoardStore,
  StoredAgent,
  StoredContent,
} from "./board_store.ts";

interface Kept {
  readonly content: StoredContent;
  readonly version: number;
  seenAt: number;
}

/** Keeps a board within the process. Agents that share it share its board. */
export class MemoryStore implements BoardStore {
  readonly #clock: Clock;
  /** In the order of their versions: whoever is written goes to the end. */
  readonly #kept = new Map<string, Kept>();
  readonly #listeners = new Set<() => void>();
  #version = 0;

  /** Empty. */
  constructor(options: { readonly clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** Writes what may be written, and answers what was there before. */
  put(entries: readonly BoardEntry[]): Promise<readonly AgentStatus[]> {
    const before = entries.map((entry) => this.#put(entry));
    for (const listener of [...this.#listeners]) listener();
    return Promise.resolve(before);
  }

  /** Says that agents are alive, without waking whoever listens. */
  touch(agentIds: readonly string[]): Promise<void> {
    for (const id of agentIds) {
      const kept = this.#kept.get(id);
      if (kept !== undefined) kept.seenAt = this.#clock.monotonic();
    }
    return Promise.resolve();
  }

  /** Forgets agents, and wakes whoever listens. */
  remove(agentIds: readonly string[]): Promise<void> {
    for (const id of agentIds) this.#kept.delete(id);
    for (const listener of [...this.#listeners]) listener();
    return Promise.resolve();
  }

  /** Those that are known; the others are missing from the answer. */
  read(agentIds: readonly string[]): Promise<readonly StoredAgent[]> {
    return Promise.resolve(agentIds.flatMap((id) => {
      const kept = this.#kept.get(id);
      return kept === undefined ? [] : [this.#stored(id, kept)];
    }));
  }

  /** What has changed since the cursor of an earlier page, or everything. */
  list(since: unknown = 0): Promise<BoardPage> {
    const all = [...this.#kept].filter(([, { version }]) => version > (since as number));
    return Promise.resolve({
      agents: all.map(([id, kept]) => this.#stored(id, kept)),
      cursor: this.#version,
    });
  }

  /** Calls it after every change of a state; returns the remover. */
  onWake(listener: () => void): () => void {
    const own = () => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Nothing to let go of: others may share it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #put({ agentId, state, metadata, notice, from }: BoardEntry): AgentStatus {
    const before = this.#kept.get(agentId)?.content.state ?? "unknown";
    if (!from.includes(before)) return before;
    const content = { state, metadata, notice, updatedAt: this.#clock.now() };
    this.#kept.delete(agentId);
    this.#kept.set(agentId, {
      content,
      version: ++this.#version,
      seenAt: this.#clock.monotonic(),
    });
    return before;
  }

  #stored(agentId: string, { content, seenAt }: Kept): StoredAgent {
    return { agentId, content, ageMs: this.#clock.monotonic() - seenAt };
  }
}
