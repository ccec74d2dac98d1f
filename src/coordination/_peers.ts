import { abortable, deferred } from "../_promises.ts";
import type { AgentRecord } from "./agent_state.ts";
import type { Board } from "./board.ts";

/** Caches the records of all agents by watching the board. */
export class Peers {
  readonly #board: Board;
  readonly #onChange: (changes: readonly AgentRecord[], first: boolean) => void;
  readonly #known = new Map<string, AgentRecord>();
  readonly #waiting = new Set<() => void>();
  #stop: (() => void) | undefined;
  #first = true;

  /** `onChange` gets the changes. `first` marks the records that existed before the watch. */
  constructor(
    board: Board,
    onChange: (changes: readonly AgentRecord[], first: boolean) => void,
  ) {
    this.#board = board;
    this.#onChange = onChange;
  }

  /** Starts the watch. Resolves when the cache is filled. */
  async start(): Promise<void> {
    if (this.#stop !== undefined) return;
    this.#stop = this.#board.watch((changes) => this.#update(changes));
    await this.#board.synced();
    this.#first = false;
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.#wake();
  }

  /** Returns the record of an agent, from the board if it is not cached. */
  async get(agentId: string): Promise<AgentRecord> {
    await this.start();
    return this.#known.get(agentId) ?? await this.#board.getState(agentId);
  }

  /** Resolves when the status of the agent differs from `record`. */
  async change(record: AgentRecord, signal: AbortSignal | undefined): Promise<void> {
    while (this.#stop !== undefined && this.#known.get(record.agentId)?.status === record.status) {
      const changed = deferred();
      this.#waiting.add(changed.resolve);
      try {
        await (signal ? abortable(changed.promise, signal) : changed.promise);
      } finally {
        this.#waiting.delete(changed.resolve);
      }
    }
    if (this.#stop === undefined) throw new Error("The bus was closed while a message was held");
  }

  #update(changes: readonly AgentRecord[]): void {
    for (const record of changes) {
      if (record.status === "unknown") this.#known.delete(record.agentId);
      else this.#known.set(record.agentId, record);
    }
    this.#onChange(changes, this.#first);
    this.#wake();
  }

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
  }
}
