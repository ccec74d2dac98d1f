// The order of everything that happens in a simulation: one thread, one queue of events, one clock.

import { Heap } from "../src/_heap.ts";
import type { Cancel } from "../src/clock.ts";
import { nextTurn } from "../src/clock.ts";

interface Event {
  place: number;
  readonly at: number;
  /** The order of events of the same time. */
  readonly number: number;
  readonly task: () => void;
}

/**
 * Runs events in the order of their times, each in a turn of its own: all promises that an event settles have
 * run when the next event begins. Nothing else runs, so the same events happen in the same order each time.
 */
export class Scheduler {
  readonly #events = new Heap<Event>((a, b) => {
    return a.at < b.at || a.at === b.at && a.number < b.number;
  });
  #now = 0;
  #lastNumber = 0;

  /** Milliseconds since the simulation began. */
  get now(): number {
    return this.#now;
  }

  /** Runs `task` after `ms` milliseconds; never for `Infinity`. */
  after(ms: number, task: () => void): Cancel {
    if (ms === Infinity) return () => {};
    const at = this.#now + Math.max(0, ms);
    const event = { place: -1, at, number: ++this.#lastNumber, task };
    this.#events.push(event);
    return () => {
      if (event.place >= 0) this.#events.remove(event);
    };
  }

  /** Runs all events until `endMs`, and calls `onStep` after each. Returns how many there were. */
  async run(endMs: number, onStep: () => void): Promise<number> {
    let steps = 0;
    await nextTurn();
    for (let next = this.#events.peek(); next !== undefined; next = this.#events.peek()) {
      if (next.at > endMs) break;
      this.#events.pop();
      this.#now = next.at;
      next.task();
      await nextTurn();
      onStep();
      steps++;
    }
    this.#now = endMs;
    return steps;
  }
}
