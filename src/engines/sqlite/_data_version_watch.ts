import type { Cancel, Clock } from "../../clock.ts";

/**
 * Notices what other connections change, of this process and of others. SQLite tells by a number that
 * has to be asked for, which is done only while somebody listens.
 */
export class DataVersionWatch {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #read: () => number;
  readonly #listeners = new Set<() => void>();
  #cancel: Cancel | undefined;
  #seen: number | undefined;

  constructor(clock: Clock, intervalMs: number, read: () => number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#read = read;
  }

  /** Watches until the remover is called. */
  add(listener: () => void): () => void {
    const own = () => listener();
    this.#listeners.add(own);
    if (this.#listeners.size === 1) {
      this.#changed();
      this.#schedule();
    }
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.stop();
    };
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  /** Processes that were started together do not look in step. */
  #schedule(): void {
    const ms = this.#intervalMs * (0.75 + Math.random() / 2);
    this.#cancel = this.#clock.schedule(ms, () => {
      this.#schedule();
      if (this.#changed()) { for (const listener of this.#listeners) listener(); }
    });
  }

  #changed(): boolean {
    const before = this.#seen;
    try {
      this.#seen = this.#read();
    } catch {
      return true; // whoever looks now meets the error itself, and reports it
    }
    return this.#seen !== before;
  }
}
