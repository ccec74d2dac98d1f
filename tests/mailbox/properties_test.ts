import { describe, it } from "node:test";
import { assert } from "@std/assert";
import * as fc from "fast-check";
import type { Delivery, Engine, Received } from "../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../src/mailbox/in_memory_mailbox.ts";
import { histories } from "./_commands.ts";
import { History } from "./_history.ts";
import type { ManualClock } from "./_manual_clock.ts";

type Make = (clock: ManualClock) => Engine<unknown>;

function accounting(make: Make) {
  return fc.asyncProperty(histories, (commands) => new History(make).run(commands));
}

describe("the accounting of a mailbox", () => {
  it("holds in thousands of random histories", async () => {
    const make: Make = (clock) => new MemoryEngine("orders", Infinity, clock);
    await fc.assert(accounting(make), { numRuns: 2_000, seed: 20260301 });
  });
});

/** A counterexample is found for each of these, or the property above would prove nothing. */
const BROKEN: Readonly<Record<string, typeof MemoryEngine<unknown>>> = {
  "drops what is released": class extends MemoryEngine<unknown> {
    override release(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return this.acknowledge(deliveries);
    }
  },

  "lets a stale receipt acknowledge": class extends MemoryEngine<unknown> {
    readonly #last = new Map<string, Delivery<unknown>>();

    override receive(max: number, visibilityMs: number): Received<unknown> {
      const pulled = super.receive(max, visibilityMs);
      for (const delivery of pulled.deliveries) this.#last.set(delivery.id, delivery);
      return pulled;
    }

    override acknowledge(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return super.acknowledge(deliveries.map((it) => this.#last.get(it.id) ?? it));
    }
  },

  "delivers a message to two at once": class extends MemoryEngine<unknown> {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      const { deliveries, nextDueMs } = super.receive(max, visibilityMs);
      const twice = deliveries.length < max ? deliveries.slice(0, 1) : [];
      return { deliveries: [...deliveries, ...twice], nextDueMs };
    }
  },

  "forgets the delay of a nack": class extends MemoryEngine<unknown> {
    override nack(
      deliveries: readonly Delivery<unknown>[],
      _: number,
      spends: boolean,
    ): boolean[] {
      return super.nack(deliveries, 0, spends);
    }
  },

  "gives the attempt back at every release": class extends MemoryEngine<unknown> {
    override release(deliveries: readonly Delivery<unknown>[]): boolean[] {
      return super.nack(deliveries, 0, false);
    }
  },

  "lets the last one out first": class extends MemoryEngine<unknown> {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      const { deliveries, nextDueMs } = super.receive(max, visibilityMs);
      return { deliveries: [...deliveries].reverse(), nextDueMs };
    }
  },

  "copies to the dead letters and removes nothing": class extends MemoryEngine<unknown> {
    override deadLetter(delivery: Delivery<unknown>, body: unknown): boolean {
      const [there = false] = this.extend([delivery], 0);
      if (there) {
        this.deadLetters().send([{ id: delivery.id, body, delayMs: 0, dedup: true }]);
      }
      return there;
    }
  },

  "takes an extension for a new beginning": class extends MemoryEngine<unknown> {
    override extend(deliveries: readonly Delivery<unknown>[], ms: number): boolean[] {
      return super.extend(deliveries, ms + 1);
    }
  },
};

describe("the accounting finds an engine that", () => {
  for (const [fault, Broken] of Object.entries(BROKEN)) {
    it(fault, async () => {
      const make: Make = (clock) => new Broken("orders", Infinity, clock);
      const { failed, numRuns } = await fc.check(accounting(make), {
        numRuns: 2_000,
        seed: 20260301,
        endOnFailure: true,
      });
      assert(failed, `no counterexample in ${numRuns} histories`);
    });
  }
});
