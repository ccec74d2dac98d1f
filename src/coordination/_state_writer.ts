import type { Board, StateChange } from "./board.ts";

interface Waiting {
  readonly change: StateChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Batches state changes: those of the same tick, or made during a write, share the next write. */
export class StateWriter {
  readonly #board: Board;
  #waiting: Waiting[] = [];
  #writing = false;

  /** Creates a writer for this board. */
  constructor(board: Board) {
    this.#board = board;
  }

  /** Writes a change. Resolves when it is stored. */
  write(change: StateChange): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ change, resolve, reject });
      if (!this.#writing) void this.#writeAll();
    });
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    await undefined; // collect the changes of the same tick
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        const errors = await this.#board.setStates(batch.map(({ change }) => change));
        batch.forEach(({ resolve, reject }, i) => errors[i] ? reject(errors[i]) : resolve());
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = false;
  }
}
