// Leases: how messages are received, and how received messages are changed.

import type { KvAtomic, KvEntry } from "./kv.ts";
import {
  type Keys,
  KvDelivery,
  type KvMessage,
  pack,
  unpackAll,
  weightOf,
  withText,
} from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

/** How many due messages a receive considers. Only when more are due, some may be delivered out of order. */
const MAX_DUE = 1_000;

/** An entry of the store, and how many of its messages a receive takes. */
interface Source {
  readonly entry: KvEntry;
  readonly messages: readonly KvMessage[];
  taken: number;
}

/** The result of a receive. */
export interface KvReceived {
  readonly deliveries: readonly KvDelivery[];
  readonly nextDueMs: number;
}

/** Leases messages, one receive at a time: parallel receives of this process would conflict. */
export class Receiver {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string, store: Store, keys: Keys) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
  }

  receive(max: number, visibilityMs: number): Promise<KvReceived> {
    const attempt = () => this.#receive(max, visibilityMs);
    const received = this.#last.then(() => this.#store.retryConflicts(this.#action, attempt));
    this.#last = received.catch(() => {});
    return received;
  }

  /** Returns the oldest messages, whatever their state. */
  async peek(max: number): Promise<KvDelivery[]> {
    const action = `peek ("${this.#name}")`;
    const entries = (await Promise.all([
      this.#store.list(action, { prefix: this.#keys.ready }, max),
      this.#store.list(action, { prefix: this.#keys.hidden }),
    ])).flat();
    const messages = entries.flatMap(({ value }) => unpackAll(value))
      .sort((a, b) => a.seq - b.seq).slice(0, max);
    const texts = await this.#largeOf(messages);
    return messages.map((it) => new KvDelivery(texts.get(it.seq) ?? it, [], "", 0, undefined));
  }

  get #action(): string {
    return `receive ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #receive(max: number, visibilityMs: number): Promise<KvReceived | undefined> {
    const now = this.#store.clock.now();
    const sources = await this.#sources(max, now);
    if (sources.length === 0) return { deliveries: [], nextDueMs: await this.#nextDueMs(now) };
    // Neither can change while no worker has the lease.
    const taken = sources.flatMap(({ messages, taken }) => messages.slice(0, taken));
    const [checkpoints, large] = await Promise.all([
      this.#checkpointsOf(taken),
      this.#largeOf(taken),
    ]);
    const dueAt = Math.ceil(now + visibilityMs);
    const deliveries: KvDelivery[] = [];
    const chunks = chunksOf(sources, ({ taken, messages }) => ({
      keyBytes: this.#keys.bytes * (taken + 3),
      bytes: messages.reduce((sum, message) => sum + weightOf(message), 0),
    }));
    for (const chunk of chunks) {
      const versionstamp = await this.#take(chunk, dueAt);
      if (versionstamp === undefined) return deliveries.length > 0 ? done(deliveries) : undefined;
      for (const { messages, taken } of chunk) {
        for (const message of messages.slice(0, taken)) {
          const { seq } = message;
          const whole = delivered(large.get(seq) ?? message);
          const key = this.#keys.placeOf(message, dueAt);
          deliveries.push(new KvDelivery(whole, key, versionstamp, dueAt, checkpoints.get(seq)));
        }
      }
    }
    return done(deliveries.sort((a, b) => a.message.seq - b.message.seq));
  }

  /** Returns the entries with the oldest visible messages, up to `max` messages. */
  async #sources(max: number, now: number): Promise<Source[]> {
    let count = 0;
    const { hidden, ready } = this.#keys;
    const due = { prefix: hidden, end: [...hidden, Math.floor(now) + 1] };
    const entries = (await Promise.all([
      this.#store.list(this.#action, due, MAX_DUE),
      this.#store.list(this.#action, { prefix: ready }, max, ({ value }) => {
        return (count += (value as readonly Uint8Array[]).length) >= max;
      }),
    ])).flat();
    const sources = entries.map((entry) => ({
      entry,
      messages: unpackAll(entry.value),
      taken: 0,
    }));
    const all = sources.flatMap((source) => source.messages.map(({ seq }) => ({ seq, source })));
    all.sort((a, b) => a.seq - b.seq);
    for (const { source } of all.slice(0, max)) source.taken++;
    return sources.filter(({ taken }) => taken > 0);
  }

  #take(sources: readonly Source[], dueAt: number): Promise<string | undefined> {
    return this.#store.commit(this.#action, (atomic) => {
      for (const { entry: { key, versionstamp }, messages, taken } of sources) {
        atomic.check({ key, versionstamp }).delete(key);
        for (const message of messages.slice(0, taken)) {
          atomic.set(this.#keys.placeOf(message, dueAt), [pack(delivered(message))]);
        }
        const [first, ...others] = messages.slice(taken);
        if (first === undefined) continue;
        atomic.set(this.#keys.placeOf(first), [first, ...others].map(pack));
      }
    });
  }

  /** Returns the checkpoints by message number. */
  async #checkpointsOf(messages: readonly KvMessage[]): Promise<ReadonlyMap<number, string>> {
    const saved = messages.filter(({ hasCheckpoint }) => hasCheckpoint);
    const keys = saved.map((message) => this.#keys.checkpoint(message));
    const entries = await this.#store.getAll(this.#action, keys);
    const decoder = new TextDecoder();
    return new Map(entries.flatMap(({ value }, i) => {
      return value === null ? [] : [[saved[i]!.seq, decoder.decode(value as Uint8Array)]];
    }));
  }

  /** Returns the large messages with their text, by message number. */
  async #largeOf(messages: readonly KvMessage[]): Promise<ReadonlyMap<number, KvMessage>> {
    const large = messages.filter(({ parts }) => parts > 0);
    return new Map(
      await Promise.all(large.map(async (message) => {
        const entries = await this.#store.getAll(this.#action, this.#keys.parts(message));
        const parts = entries.flatMap(({ value }) => value === null ? [] : [value as Uint8Array]);
        return [message.seq, withText(message, parts)] as const;
      })),
    );
  }

  async #nextDueMs(now: number): Promise<number> {
    const { hidden } = this.#keys;
    const [next] = await this.#store.list(this.#action, { prefix: hidden }, 1);
    return next === undefined ? Infinity : Math.max(0, Number(next.key[hidden.length]) - now);
  }
}

function done(deliveries: readonly KvDelivery[]): KvReceived {
  return { deliveries, nextDueMs: 0 };
}

function delivered(message: KvMessage): KvMessage {
  return { ...message, deliveries: message.deliveries + 1 };
}

/** A change of deliveries. */
export interface Change {
  /** The verb for errors. */
  readonly action: string;
  /** Adds the operations of one delivery. */
  each(atomic: KvAtomic, delivery: KvDelivery): void;
  /** Adds the operations of the whole chunk. */
  all?(atomic: KvAtomic, count: number): void;
  /** Called after the commit, with its versionstamp. */
  done(delivery: KvDelivery, versionstamp: string): void;
}

/** Changes leased messages while their leases last. */
export class Settler {
  readonly #store: Store;
  readonly #keys: Keys;

  constructor(store: Store, keys: Keys) {
    this.#store = store;
    this.#keys = keys;
  }

  /** Returns for each delivery whether its receipt handle was valid. */
  change(deliveries: readonly KvDelivery[], change: Change): Promise<boolean[]> {
    const before = Promise.all(deliveries.map((it) => it.lastChange));
    const changed = before.then(() => this.#change(deliveries, change));
    const complete = changed.catch(() => {});
    for (const it of deliveries) it.lastChange = complete;
    return changed;
  }

  async #change(deliveries: readonly KvDelivery[], change: Change): Promise<boolean[]> {
    const now = this.#store.clock.now();
    const open = deliveries.filter(({ leaseEndsAt }) => leaseEndsAt > now);
    const chunks = chunksOf(open, ({ message }) => ({
      keyBytes: (4 + message.parts) * this.#keys.bytes +
        (message.dedup ? 3 * message.id.length : 0),
      bytes: weightOf(message),
    }));
    const results = await Promise.all(chunks.map((chunk) => this.#changeChunk(chunk, change)));
    const valid = new Set(results.flat());
    return deliveries.map((it) => valid.has(it));
  }

  /** Returns the deliveries whose receipt handle was valid. */
  #changeChunk(chunk: readonly KvDelivery[], change: Change): Promise<readonly KvDelivery[]> {
    let open = chunk;
    return this.#store.retryConflicts(change.action, async () => {
      if (open.length === 0) return open;
      const versionstamp = await this.#store.commit(change.action, (atomic) => {
        for (const it of open) atomic.check({ key: it.key, versionstamp: it.versionstamp });
        for (const it of open) change.each(atomic, it);
        change.all?.(atomic, open.length);
      });
      if (versionstamp !== undefined) {
        for (const it of open) change.done(it, versionstamp);
        return open;
      }
      const entries = await this.#store.getAll(change.action, open.map(({ key }) => key));
      open = open.filter((it, i) => entries[i]!.versionstamp === it.versionstamp);
      return open.length === 0 ? open : undefined;
    });
  }
}
