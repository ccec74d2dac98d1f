import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { Delivery, Entry, Received } from "../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { type Faults, findsFaults, property } from "./_property.ts";
import { seed } from "../_seed.ts";

describe("a mailbox", () => {
  it(`keeps every message in exactly one place, in random histories (seed ${seed})`, async () => {
    const make = property((clock) => new MemoryEngine("orders", Infinity, clock));
    await fc.assert(make, { numRuns: 2_000, seed });
  });
});

/** Engines with one fault each. The property above must find a counterexample for every one. */
const BROKEN: Faults = {
  "drops released messages": class extends MemoryEngine<unknown> {
    override release(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return this.acknowledge(deliveries);
    }
  },

  "accepts an acknowledge with a stale receipt handle": class extends MemoryEngine<unknown> {
    readonly #last = new Map<string, Delivery<unknown>>();

    override receive(max: number, visibilityMs: number): Received<unknown> {
      const received = super.receive(max, visibilityMs);
      for (const delivery of received.deliveries) this.#last.set(delivery.id, delivery);
      return received;
    }

    override acknowledge(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return super.acknowledge(deliveries.map((it) => this.#last.get(it.id) ?? it));
    }
  },

  "delivers a message twice at the same time": class extends MemoryEngine<unknown> {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      const { deliveries, nextDueMs } = super.receive(max, visibilityMs);
      const twice = deliveries.length < max ? deliveries.slice(0, 1) : [];
      return { deliveries: [...deliveries, ...twice], nextDueMs };
    }
  },

  "ignores the delay of a nack": class extends MemoryEngine<unknown> {
    override nack(
      deliveries: readonly Delivery<unknown>[],
      _: number,
      countsAttempt: boolean,
    ): boolean[] {
      return super.nack(deliveries, 0, countsAttempt);
    }
  },

  "counts no release as an attempt": class extends MemoryEngine<unknown> {
    override release(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return super.nack(deliveries, 0, false);
    }
  },

  "delivers the newest message first": class extends MemoryEngine<unknown> {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      const { deliveries, nextDueMs } = super.receive(max, visibilityMs);
      return { deliveries: [...deliveries].reverse(), nextDueMs };
    }
  },

  "stores a dead letter and does not remove its message": class extends MemoryEngine<unknown> {
    override deadLetter(delivery: Delivery<unknown>, letter: Entry<unknown>): boolean {
      const [isActive = false] = this.extend([delivery], 0);
      if (isActive) this.deadLetters().send([letter]);
      return isActive;
    }
  },

  "extends a lease by more than requested": class extends MemoryEngine<unknown> {
    override extend(deliveries: readonly Delivery<unknown>[], ms: number): boolean[] {
      return super.extend(deliveries, ms + 1);
    }
  },
};

findsFaults(BROKEN);
