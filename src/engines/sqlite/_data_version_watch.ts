import type { Cancel, Clock } from "../../clock.ts";

/**
 * Detects changes by other connections, in this process and in others. SQLite reports them by a number
 * (`data_version`) that has to be polled. Polling runs only while there are listeners.
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

  /** Adds a listener. Returns a function that removes it. */
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

  /** The interval is random, so that processes do not poll at the same moment. */
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
      return true; // a woken receiver meets the same error and reports it
    }
    return this.#seen !== before;
  }
}
