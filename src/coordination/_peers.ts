import { abortable, deferred } from "../_promises.ts";
import type { AgentRecord } from "./agent_state.ts";
import type { Board } from "./board.ts";

/** What this process knows of all agents without asking, because it watches the board. */
export class Peers {
  readonly #board: Board;
  readonly #onChange: (changes: readonly AgentRecord[], first: boolean) => void;
  readonly #known = new Map<string, AgentRecord>();
  readonly #waiting = new Set<() => void>();
  #stop: (() => void) | undefined;
  #first = true;

  /** `onChange` hears of changes; those of the first look are what was there already. */
  constructor(
    board: Board,
    onChange: (changes: readonly AgentRecord[], first: boolean) => void,
  ) {
    this.#board = board;
    this.#onChange = onChange;
  }

  /** Resolves when it is known what is on the board. */
  async start(): Promise<void> {
    if (this.#stop !== undefined) return;
    this.#stop = this.#board.watch((changes) => this.#learn(changes));
    await this.#board.synced();
    this.#first = false;
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.#wake();
  }

  /** What is known of an agent; the board is asked for one that was not heard of. */
  async get(agentId: string): Promise<AgentRecord> {
    await this.start();
    return this.#known.get(agentId) ?? await this.#board.getState(agentId);
  }

  /** Resolves when something else is known of the agent. */
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

  #learn(changes: readonly AgentRecord[]): void {
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
