import { type Clock, systemClock } from "../clock.ts";
import type {
  BoardEntry,
  BoardPage,
  BoardStore,
  StoredContent,
  StoredMember,
} from "./board_store.ts";
import type { MemberStatus } from "./member_state.ts";

interface Entry {
  readonly content: StoredContent;
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
