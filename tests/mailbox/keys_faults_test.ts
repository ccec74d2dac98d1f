import * as fc from "fast-check";
import type { Clock } from "../../src/clock.ts";
import type {
  Delivery,
  EngineStats,
  Entry,
  Received,
  StoredMessage,
} from "../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import type { Command } from "./_commands.ts";
import { type Faults, findsFaults } from "./_property.ts";

type Deliveries = readonly Delivery<unknown>[];
type Entries = readonly Entry<unknown>[];

/** What a fault changes of a stored message. */
interface Stored {
  entry: Entry<unknown>;
  number: number;
  enqueuedAt: number;
  deliveryCount: number;
  releases: number;
  checkpoint: unknown;
  readonly dueAt: number;
  readonly holder: Delivery<unknown> | undefined;
}

class Engine extends MemoryEngine<unknown> {
  readonly clock: Clock;

  constructor(name: string, maxSize: number, clock: Clock, queues?: Map<string, Engine>) {
    super(name, maxSize, clock, queues);
    this.clock = clock;
  }

  /** Returns the stored message, which a fault may change. */
  stored(message: StoredMessage<unknown>): Stored {
    return (message as unknown as { readonly slot: Stored }).slot;
  }

  /** Changes what the engine stores of the message. */
  change(message: StoredMessage<unknown>, fields: Partial<Entry<unknown>>): void {
    const stored = this.stored(message);
    stored.entry = { ...stored.entry, ...fields };
  }

  /** Moves a message behind another one that waits for its key. Nothing else of it changes. */
  moveBehind(delivery: Delivery<unknown>, delayMs: number): void {
    const { entry, number, enqueuedAt, deliveryCount, releases, checkpoint } = this.stored(
      delivery,
    );
    const { id, key } = entry;
    const isBehind = (it: Delivery<unknown>) =>
      it.id !== id && it.state === "waiting" && this.stored(it).entry.key === key;
    if (key === undefined || !this.peek(1_000).some(isBehind)) return;
    super.cancel(id);
    super.send([{ ...entry, delayMs, dedupMs: undefined }]);
    const rest = { number, enqueuedAt, deliveryCount, releases, checkpoint };
    Object.assign(this.stored(super.find(id)!), rest);
  }

  isActive(delivery: Delivery<unknown>): boolean {
    return super.extend([delivery], 0)[0] === true;
  }
}

const KEYS: Faults = {
  "delivers several messages of a key at a time": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries.map((entry) => ({ ...entry, key: undefined })));
    }
  },

  "ignores the key of a delayed message": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries.map((it) => it.delayMs === 0 ? it : { ...it, key: undefined }));
    }
  },

  "does not unblock a key after an acknowledgement": class extends Engine {
    override acknowledge(deliveries: Deliveries): boolean[] {
      for (const it of deliveries) if (this.isActive(it)) this.change(it, { key: undefined });
      return super.acknowledge(deliveries);
    }
  },

  "does not unblock a key after dead-lettering": class extends Engine {
    override deadLetter(delivery: Delivery<unknown>, letter: Entry<unknown>): boolean {
      if (this.isActive(delivery)) this.change(delivery, { key: undefined });
      return super.deadLetter(delivery, letter);
    }
  },

  "does not unblock a key after a cancel": class extends Engine {
    override cancel(id: string): boolean {
      const found = this.find(id);
      if (found !== undefined) this.change(found, { key: undefined });
      return super.cancel(id);
    }
  },

  "unblocks a key when a message behind the first is cancelled": class extends Engine {
    override cancel(id: string): boolean {
      const found = this.find(id);
      const key = found && this.stored(found).entry.key;
      const isCancelled = super.cancel(id);
      const first = key !== undefined && this.peek(1_000).find((it) => this.stored(it).holder);
      if (first) this.change(first, { key: undefined });
      return isCancelled;
    }
  },

  "leaves a key blocked after a purge": class extends Engine {
    override purge(): number {
      const messages = this.peek(1_000);
      for (const message of messages) {
        this.change(message, { key: undefined });
        super.cancel(message.id);
      }
      return messages.length;
    }
  },

  "moves a nacked message behind its key": class extends Engine {
    override nack(deliveries: Deliveries, delayMs: number, countsAttempt: boolean): boolean[] {
      const active = deliveries.filter((it) => this.isActive(it));
      const nacked = super.nack(deliveries, delayMs, countsAttempt);
      for (const it of active) this.moveBehind(it, delayMs);
      return nacked;
    }
  },

  "moves a released message behind its key": class extends Engine {
    override release(deliveries: Deliveries): boolean[] {
      const active = deliveries.filter((it) => this.isActive(it));
      const released = super.release(deliveries);
      for (const it of active) this.moveBehind(it, 0);
      return released;
    }
  },

  "moves a message behind its key when its lease expires": class extends Engine {
    #deliveries: Deliveries = [];

    override receive(max: number, visibilityMs: number): Received<unknown> {
      const now = this.clock.monotonic();
      const expired = this.#deliveries.filter((it) => {
        const { holder, dueAt } = this.stored(it);
        return holder === it && dueAt <= now;
      });
      for (const it of expired) this.moveBehind(it, 0);
      const received = super.receive(max, visibilityMs);
      this.#deliveries = [...this.#deliveries, ...received.deliveries];
      return received;
    }
  },
};

const PRIORITIES: Faults = {
  "ignores priorities": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries.map((entry) => ({ ...entry, priority: 0 })));
    }
  },

  "delivers a lower priority first": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(
        entries.map((entry) => ({ ...entry, priority: 9 - (entry.priority ?? 0) })),
      );
    }
  },

  "treats the highest two priorities as one": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(
        entries.map((it) => ({ ...it, priority: Math.min(8, it.priority ?? 0) })),
      );
    }
  },

  "forgets the priority of a released message": class extends Engine {
    override release(deliveries: Deliveries): boolean[] {
      for (const it of deliveries) if (this.isActive(it)) this.change(it, { priority: 0 });
      return super.release(deliveries);
    }
  },

  "delivers a message with a priority before its key's turn": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries.map((it) => it.priority ? { ...it, key: undefined } : it));
    }
  },
};

const WINDOWS: Faults = {
  "remembers no id": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries.map((entry) => ({ ...entry, dedupMs: undefined })));
    }
  },

  "remembers an id a millisecond too long": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(
        entries.map((it) => it.dedupMs === undefined ? it : { ...it, dedupMs: it.dedupMs + 1 }),
      );
    }
  },

  "refuses a remembered id without dedupMs": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(
        entries.map((it) => it.dedup ? { ...it, dedupMs: it.dedupMs ?? 0.001 } : it),
      );
    }
  },

  "forgets an id when its message is cancelled": class extends Engine {
    readonly #forgotten = new Set<string>();

    override send(entries: Entries): boolean[] {
      return super.send(
        entries.map((it) => this.#forgotten.delete(it.id) ? { ...it, dedupMs: undefined } : it),
      );
    }

    override cancel(id: string): boolean {
      this.#forgotten.add(id);
      return super.cancel(id);
    }
  },

  "remembers an id after a purge": class extends Engine {
    override purge(): number {
      const messages = this.peek(1_000);
      for (const { id } of messages) super.cancel(id);
      return messages.length;
    }
  },

  "stores a duplicate and reports it": class extends Engine {
    override send(entries: Entries): boolean[] {
      super.send(entries.map((entry) => ({ ...entry, dedup: false })));
      return entries.map(({ dedup }) => !dedup);
    }
  },

  "reports a duplicate as stored": class extends Engine {
    override send(entries: Entries): boolean[] {
      return super.send(entries).map(() => true);
    }
  },
};

const EXPIRY: Faults = {
  "never lets a message expire": class extends Engine {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      return { ...super.receive(max, visibilityMs), now: 0 };
    }
  },

  "lets a message expire a millisecond too early": class extends Engine {
    override receive(max: number, visibilityMs: number): Received<unknown> {
      return { ...super.receive(max, visibilityMs), now: this.clock.now() + 1 };
    }
  },
};

const CONTROL: Faults = {
  "reports a message in flight as cancelled and keeps it": class extends Engine {
    override cancel(id: string): boolean {
      return this.find(id)?.state === "inFlight" || super.cancel(id);
    }
  },

  "does not find delayed messages": class extends Engine {
    override find(id: string): Delivery<unknown> | undefined {
      const found = super.find(id) as Delivery<unknown> | undefined;
      return found?.state === "delayed" ? undefined : found;
    }
  },

  "accepts an acknowledgement of a cancelled message": class extends Engine {
    readonly #cancelled = new Set<string>();

    override cancel(id: string): boolean {
      this.#cancelled.add(id);
      return super.cancel(id);
    }

    override acknowledge(deliveries: Deliveries): boolean[] {
      return super.acknowledge(deliveries)
        .map((done, i) => done || this.#cancelled.has(deliveries[i]!.id));
    }
  },

  "tells no process about a cancel": class extends Engine {
    override onCancel(): () => void {
      return () => {};
    }
  },

  "tells processes about the cancel of a waiting message": class extends Engine {
    readonly #listeners = new Set<(id: string) => void>();

    override onCancel(listener: (id: string) => void): () => void {
      this.#listeners.add(listener);
      return super.onCancel(listener);
    }

    override cancel(id: string): boolean {
      const isWaiting = this.find(id)?.state === "waiting";
      if (isWaiting) { for (const listener of this.#listeners) listener(id); }
      return super.cancel(id);
    }
  },

  "delivers while it is paused": class extends Engine {
    override pause(): void {}
  },

  "resumes at a purge": class extends Engine {
    override purge(): number {
      this.pause(0);
      return super.purge();
    }
  },

  "refuses to settle while it is paused": class extends Engine {
    override acknowledge(deliveries: Deliveries): boolean[] {
      return this.stats().paused ? deliveries.map(() => false) : super.acknowledge(deliveries);
    }
  },
};

const DELIVER_NOW: Faults = {
  "ignores the key of a message that it delivers now": class extends Engine {
    override deliverNow(id: string): boolean {
      const found = this.find(id);
      if (found?.state === "delayed" && found.deliveryCount === 0) {
        this.change(found, { key: undefined });
      }
      return super.deliverNow(id);
    }
  },

  "delivers a message now that a worker holds": class extends Engine {
    override deliverNow(id: string): boolean {
      const found = this.find(id);
      const holder = found?.state === "inFlight" && this.stored(found).holder;
      return holder ? super.nack([holder], 0, true)[0] === true : super.deliverNow(id);
    }
  },

  "counts an attempt when it delivers a message now": class extends Engine {
    override deliverNow(id: string): boolean {
      const isDelivered = super.deliverNow(id);
      if (isDelivered) this.stored(this.find(id)!).deliveryCount++;
      return isDelivered;
    }
  },

  "reports that it delivers a waiting message now": class extends Engine {
    override deliverNow(id: string): boolean {
      return super.deliverNow(id) || this.find(id)?.state === "waiting";
    }
  },
};

const STATS: Faults = {
  "does not count messages behind the first of their key": class extends Engine {
    override stats(): EngineStats {
      const keys = this.peek(1_000).flatMap((it) => this.stored(it).entry.key ?? []);
      const stats = super.stats();
      return { ...stats, waiting: Math.max(0, stats.waiting - keys.length + new Set(keys).size) };
    }
  },

  "counts a nacked message as in flight": class extends Engine {
    override stats(): EngineStats {
      const { delayed = 0, inFlight = 0, ...stats } = super.stats();
      return { ...stats, delayed: 0, inFlight: inFlight + delayed };
    }
  },

  "takes the newest waiting message for the oldest": class extends Engine {
    override stats(): EngineStats {
      const newest = this.peek(1_000).filter(({ state }) => state === "waiting").at(-1);
      const oldestWaitingMs = newest && this.clock.now() - newest.enqueuedAt;
      return { ...super.stats(), oldestWaitingMs };
    }
  },
};

findsFaults({
  ...KEYS,
  ...PRIORITIES,
  ...WINDOWS,
  ...EXPIRY,
  ...CONTROL,
  ...DELIVER_NOW,
  ...STATS,
});

/** Without this beginning, one history in thousands has a retry in front of another message of its key. */
const retries: fc.Arbitrary<Command[]> = fc.nat({ max: 3 }).map((pick) => {
  const sending = {
    delayMs: 0,
    id: null,
    dedupMs: null,
    key: 0,
    priority: 0,
    expiresInMs: null,
    drop: false,
  };
  return [
    { do: "sendMany", sendings: [sending, sending] },
    { do: "receive", count: 1, ms: 12 },
    { do: "nack", pick: 0, ms: 12 },
    { do: "deliverNow", pick },
  ] as Command[];
});

findsFaults({
  "delivers a retry now behind the other messages of its key": class extends Engine {
    override deliverNow(id: string): boolean {
      const found = this.find(id);
      const isDelivered = super.deliverNow(id);
      if (isDelivered && found!.deliveryCount > 0) this.moveBehind(found!, 0);
      return isDelivered;
    }
  },
}, retries);
