import type { Clock } from "../../clock.ts";
import type { Random } from "../../random.ts";
import { pollNowAndThen } from "../_kit/wake_ups.ts";

/**
 * The waiting receivers of this process, by file and queue. They wake receivers without a poll, across
 * mailboxes on the same file. An entry exists only while a receiver waits.
 */
const receivers = new Map<string, Set<() => void>>();

/** Adds a waiting receiver of this process. Returns a function that removes it. */
export function addReceiver(file: string, queue: string, listener: () => void): () => void {
  const key = receiverKey(file, queue);
  const listeners = receivers.get(key) ?? new Set();
  receivers.set(key, listeners);
  const own = () => listener();
  listeners.add(own);
  return () => {
    listeners.delete(own);
    if (listeners.size === 0 && receivers.get(key) === listeners) receivers.delete(key);
  };
}

/** Wakes the receivers of this process that wait at the queue. */
export function wakeReceivers(file: string, queue: string): void {
  for (const listener of receivers.get(receiverKey(file, queue)) ?? []) listener();
}

function receiverKey(file: string, queue: string): string {
  return `${file}\n${queue}`;
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
    if (this.#changed()) { for (const listener of this.#listeners) listener(); }
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
