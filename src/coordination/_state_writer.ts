import type { Board, StateChange } from "./board.ts";

interface Waiting {
  readonly change: StateChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What agents say in the same breath, or while a write is under way, shares the next write. */
export class StateWriter {
  readonly #board: Board;
  #waiting: Waiting[] = [];
  #writing = false;

  /** Writes to this board. */
  constructor(board: Board) {
    this.#board = board;
  }

  /** Resolves when it is written. */
  write(change: StateChange): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ change, resolve, reject });
      if (!this.#writing) void this.#writeAll();
    });
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    await undefined; // whoever speaks in the same breath takes part
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
