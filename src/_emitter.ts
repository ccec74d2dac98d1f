import { contain } from "./_promises.ts";
import type { Log } from "./log.ts";

/** Calls listeners with events. An error of one listener is logged, and the others are still called. */
export class Emitter<Events> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => void>>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds a listener and returns its remover. */
  on<K extends keyof Events>(kind: K, listener: (event: Events[K]) => void): () => void {
    const listeners = this.#listeners.get(kind) ?? new Set();
    this.#listeners.set(kind, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Calls the listeners of this kind of event. */
  emit<K extends keyof Events>(kind: K, event: Events[K]): void {
    for (const listener of this.#listeners.get(kind) ?? []) {
      contain(() => (listener as (event: Events[K]) => void)(event), (error) => {
        this.#log.error(`a listener for "${String(kind)}" events failed`, { error });
      });
    }
  }
}
