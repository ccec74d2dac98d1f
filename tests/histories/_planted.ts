// Engines in memory with one fault each: the checker must find every one.

import type { Delivery, Entry, Received } from "../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { memorySite, simulatedSite } from "./_local_sites.ts";
import type { ClientFault } from "./_remote.ts";
import type { Site } from "./_site.ts";

type Broken = typeof MemoryEngine<string>;
type Deliveries = readonly Delivery<string>[];

/** The engines by what they do wrong. */
const BROKEN: Readonly<Record<string, Broken>> = {
  "acknowledges the next message, too": class extends MemoryEngine<string> {
    override acknowledge(deliveries: Deliveries): boolean[] {
      const results = super.acknowledge(deliveries);
      if (results.includes(true)) super.acknowledge(super.receive(1, 1_000).deliveries);
      return results;
    }
  },

  "loses a released message": class extends MemoryEngine<string> {
    override release(deliveries: Deliveries): boolean[] {
      return this.acknowledge(deliveries);
    }
  },

  "ignores the fence: an old receipt handle acknowledges the next delivery": class
    extends MemoryEngine<string> {
    readonly #last = new Map<string, Delivery<string>>();

    override receive(max: number, visibilityMs: number): Received<string> {
      const received = super.receive(max, visibilityMs);
      for (const delivery of received.deliveries) this.#last.set(delivery.id, delivery);
      return received;
    }

    override acknowledge(deliveries: Deliveries): boolean[] {
      return super.acknowledge(deliveries.map((it) => this.#last.get(it.id) ?? it));
    }
  },

  "stores a duplicate of a message whose send was repeated": class extends MemoryEngine<string> {
    override send(entries: readonly Entry<string>[]): boolean[] {
      return super.send(entries.map((it) => ({ ...it, dedup: false })));
    }
  },

  "counts an attempt twice": class extends MemoryEngine<string> {
    override nack(deliveries: Deliveries, delayMs: number, countsAttempt: boolean): boolean[] {
      const results = super.nack(deliveries, 0, countsAttempt);
      if (!countsAttempt || !results[0] || delayMs > 0) return results;
      super.nack(super.receive(1, 1_000).deliveries, 0, true);
      return results;
    }
  },

  "counts no attempt for a nack": class extends MemoryEngine<string> {
    override nack(deliveries: Deliveries, delayMs: number): boolean[] {
      return super.nack(deliveries, delayMs, false);
    }
  },

  "lets a message with a priority overtake others with its key": class
    extends MemoryEngine<string> {
    override send(entries: readonly Entry<string>[]): boolean[] {
      return super.send(entries.map((it) => it.priority ? { ...it, key: undefined } : it));
    }
  },

  "keeps a dead-lettered message": class extends MemoryEngine<string> {
    override deadLetter(delivery: Delivery<string>, letter: Entry<string>): boolean {
      const [isActive = false] = this.extend([delivery], 0);
      if (isActive) this.deadLetters().send([letter]);
      return isActive;
    }
  },

  "delivers while it is paused": class extends MemoryEngine<string> {
    override pause(forMs: number): void {
      if (forMs === 0) super.pause(0);
    }
  },

  "forgets a checkpoint": class extends MemoryEngine<string> {
    override checkpoint(delivery: Delivery<string>): boolean {
      return this.extend([delivery], 0)[0]!;
    }
  },

  "cancels only waiting messages": class extends MemoryEngine<string> {
    override cancel(id: string): boolean {
      return this.find(id)?.state === "waiting" && super.cancel(id);
    }
  },
};

const CLIENT_FAULTS: readonly ClientFault[] = [
  "forgets lost settlements",
  "reports other calls as done after a lost settlement",
  "leaves the messages of a lost receive hidden",
  "counts the attempt of a lost receive",
];

/** Functions that make the engines with faults, by what they do wrong. */
export const planted: readonly (readonly [fault: string, open: () => Site])[] = [
  ...Object.entries(BROKEN).map(([fault, Engine]) => {
    return [fault, () => memorySite((name, clock) => new Engine(name, Infinity, clock))] as const;
  }),
  ...CLIENT_FAULTS.map((fault) => [fault, () => simulatedSite(fault)] as const),
];
