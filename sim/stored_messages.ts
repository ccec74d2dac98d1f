// The messages that must be stored, by queue. After each event they are compared with the engine's messages.

import type { DeadLetters } from "./dead_letters.ts";
import type { Queue, Server } from "./server.ts";
import type { Broken, Tracked } from "./tracked.ts";

interface Compared extends Queue {
  readonly queue: string;
  readonly messages: ReadonlySet<Tracked>;
}

/** The messages that are only in their queue. */
export class StoredMessages {
  readonly #deadLetters: DeadLetters;
  readonly #broken: Broken;
  readonly #queues = new Map<string, Set<Tracked>>();
  #compared: readonly Compared[] = [];

  constructor(deadLetters: DeadLetters, broken: Broken) {
    this.#deadLetters = deadLetters;
    this.#broken = broken;
  }

  /** The messages of all queues. */
  get all(): readonly Tracked[] {
    return [...this.#queues.values()].flatMap((it) => [...it]);
  }

  /** The messages of one queue. */
  of(queue: string): readonly Tracked[] {
    return [...this.#queues.get(queue) ?? []];
  }

  add(message: Tracked): void {
    const { queue } = message;
    const messages = this.#queues.get(queue) ?? new Set();
    this.#queues.set(queue, messages.add(message));
  }

  delete(message: Tracked): void {
    this.#queues.get(message.queue)?.delete(message);
  }

  /** Compares the stored messages with the expected ones. */
  check(server: Server): void {
    if (this.#compared.length < this.#queues.size) {
      this.#compared = [...this.#queues].map(([queue, messages]) => {
        return { queue, messages, ...server.queue(queue) };
      });
    }
    for (const { queue, messages, engine, letters } of this.#compared) {
      const count = engine.count();
      if (count !== messages.size) {
        this.#broken("no loss", `queue ${queue} has ${count} messages instead of ${messages.size}`);
      }
      const dead = letters.count();
      const expected = this.#deadLetters.count(queue);
      if (dead !== expected) {
        this.#broken("no loss", `queue ${queue} has ${dead} dead letters instead of ${expected}`);
      }
    }
  }
}
