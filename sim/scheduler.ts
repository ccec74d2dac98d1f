// The order of everything that happens in a simulation: one thread, one queue of events, one clock.

import { Heap } from "../src/_heap.ts";
import type { Cancel } from "../src/clock.ts";
import { nextTurn } from "../src/clock.ts";

/**
 * The number of event loop turns that are requested at once. A runtime runs them in a row, with the promises of each,
 * and polls for I/O only afterwards. Nothing in a simulation waits for I/O.
 */
const TURNS_AT_ONCE = 64;

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
    await nextTurn();
    const steps = await new Promise<number>((resolve, reject) => {
      let steps = 0;
      let isOver = false;
      let turnsLeft = 0;
      /** Checks the previous event, whose promises have all run, and runs the next one. */
      const turn = () => {
        if (isOver) return;
        try {
          if (steps > 0) onStep();
          const next = this.#events.peek();
          isOver = next === undefined || next.at > endMs;
          if (next === undefined || isOver) return resolve(steps);
          this.#events.pop();
          this.#now = next.at;
          steps++;
          next.task();
        } catch (error) {
          isOver = true;
          return reject(error);
        }
        if (--turnsLeft <= 0) takeTurns();
      };
      const takeTurns = () => {
        turnsLeft = TURNS_AT_ONCE;
        for (let i = 0; i < TURNS_AT_ONCE; i++) setImmediate(turn);
      };
      takeTurns();
    });
    this.#now = endMs;
    return steps;
  }
}
