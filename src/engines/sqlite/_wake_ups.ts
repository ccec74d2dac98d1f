import type { Clock } from "../../clock.ts";
import type { Random } from "../../random.ts";
import { pollNowAndThen } from "../_kit/wake_ups.ts";

/** What listeners of a queue wait for. */
export type Topic = "messages" | "cancelled";

/**
 * The listeners of this process, by file, queue and topic. They hear of changes without a poll, across
 * mailboxes on the same file. An entry exists only while there is a listener.
 */
const local = new Map<string, Set<() => void>>();

/** Adds a listener for changes by this process. Returns a function that removes it. */
export function addLocal(
  file: string,
  queue: string,
  topic: Topic,
  listener: () => void,
): () => void {
  const key = localKey(file, queue, topic);
  const listeners = local.get(key) ?? new Set();
  local.set(key, listeners);
  const own = () => listener();
  listeners.add(own);
  return () => {
    listeners.delete(own);
    if (listeners.size === 0 && local.get(key) === listeners) local.delete(key);
  };
}

/** Calls the listeners of this process. */
export function wakeLocal(file: string, queue: string, topic: Topic): void {
  for (const listener of local.get(localKey(file, queue, topic)) ?? []) {
    try {
      listener();
    } catch {
      // The change has succeeded. A listener whose file has failed is called again by its watch.
    }
  }
}

function localKey(file: string, queue: string, topic: Topic): string {
  return `${file}\n${queue}\n${topic}`;
}

/**
 * Detects changes by other connections, in this process and in others. SQLite reports them by a number
 * (`data_version`) that has to be polled. Polling runs only while there are listeners.
 */
export class DataVersionWatch {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #intervalMs: number;
  readonly #read: () => number;
  readonly #listeners = new Set<() => void>();
  #stopPolling = () => {};
  #seen: number | undefined;

  constructor(clock: Clock, random: Random, intervalMs: number, read: () => number) {
    this.#clock = clock;
    this.#random = random;
    this.#intervalMs = intervalMs;
    this.#read = read;
  }

  /** Adds a listener. Returns a function that removes it. */
  add(listener: () => void): () => void {
    const own = () => listener();
    this.#listeners.add(own);
    if (this.#listeners.size === 1) {
      this.#changed();
      const poll = () => this.#poll();
      this.#stopPolling = pollNowAndThen(this.#clock, this.#intervalMs, poll, this.#random);
    }
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.stop();
    };
  }

  stop(): void {
    this.#stopPolling();
  }

  #poll(): void {
    if (!this.#changed()) return;
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch {
        this.#seen = undefined; // it could not read the file: the next poll calls it again
      }
    }
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
