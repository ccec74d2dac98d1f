// The rule about keys: the messages of a key are delivered one at a time and in order.

import type { Scheduler } from "./scheduler.ts";
import type { Broken, Tracked } from "./tracked.ts";

/** The messages of each key that are stored, in the order in which they were sent. */
export class KeyLines {
  readonly #scheduler: Scheduler;
  readonly #broken: Broken;
  readonly #lines = new Map<string, Set<Tracked>>();

  constructor(scheduler: Scheduler, broken: Broken) {
    this.#scheduler = scheduler;
    this.#broken = broken;
  }

  /** Adds a message. Returns whether it is visible now: a delayed one joins the line when it is due. */
  join(message: Tracked): boolean {
    const name = lineOf(message);
    const line = this.#lines.get(name) ?? new Set();
    this.#lines.set(name, line.add(message));
    return line.size === 1 && !message.isDelayed;
  }

  /** Removes a message. Returns the one that becomes visible, as far as that is certain. */
  leave(message: Tracked): Tracked | undefined {
    const line = this.#lines.get(lineOf(message))!;
    line.delete(message);
    const [next] = line;
    if (next === undefined || next.isDelayed || next.lease !== undefined) return undefined;
    return next.number > message.number ? next : undefined; // one that left from the middle changes nothing
  }

  /** Checks a message that is delivered. */
  check(message: Tracked): void {
    const { queue, key, isDelayed, number, id } = message;
    if (key === undefined) return;
    for (const other of this.#lines.get(lineOf(message))!) {
      if (other === message) continue;
      const isHeld = other.lease !== undefined && other.lease.until > this.#scheduler.now;
      const comesFirst = !isDelayed && !other.isDelayed && other.number < number;
      const wasFirst = other.handlings.length > 0;
      if (isHeld || comesFirst || wasFirst) {
        this.#broken("order of a key", `${queue}/${id} before ${other.id}`);
      }
    }
  }
}

function lineOf({ queue, key }: Tracked): string {
  return `${queue}/${key}`;
}
