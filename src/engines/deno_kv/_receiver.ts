import type { KvEntry } from "./kv.ts";
import { KvDelivery } from "./_leases.ts";
import { Lines } from "./_lines.ts";
import {
  inOrder,
  type Keys,
  type KvMessage,
  pack,
  unpackAll,
  weightOf,
  withText,
} from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

/** How many due messages a receive considers. Only when more are due, some may be delivered out of order. */
const MAX_DUE = 1_000;

/** How many messages join the messages of their keys in one commit. */
const MAX_JOINS = 10;

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
  readonly #lines: Lines;
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string, store: Store, keys: Keys) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#lines = new Lines(store, keys);
  }

  receive(max: number, visibilityMs: number): Promise<KvReceived> {
    const attempt = () => this.#receive(max, visibilityMs);
    const received = this.#last.then(() => this.#store.retryConflicts(this.#action, attempt));
    this.#last = received.catch(() => {});
    return received;
  }

  get #action(): string {
    return `receive ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #receive(max: number, visibilityMs: number): Promise<KvReceived | undefined> {
    const now = this.#store.clock.now();
    const sources = await this.#sources(max, now);
    if (sources === undefined) return { deliveries: [], nextDueMs: Infinity }; // until it is resumed
    if (sources.length === 0) return { deliveries: [], nextDueMs: await this.#nextDueMs(now) };
    if (sources.some(isJoining)) {
      return await this.#join(sources) ? await this.#receive(max, visibilityMs) : undefined;
    }
    // Neither can change while no worker has the lease.
    const taken = sources.flatMap(({ messages, taken }) => messages.slice(0, taken));
    const [checkpoints, large] = await Promise.all([
      this.#checkpointsOf(taken),
      largeOf(this.#store, this.#keys, this.#action, taken),
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
    return done(deliveries.sort((a, b) => inOrder(a.message, b.message)));
  }

  /** Returns the entries with the first visible messages, up to `max` messages; undefined while paused. */
  async #sources(max: number, now: number): Promise<Source[] | undefined> {
    let count = 0;
    const { hidden, ready } = this.#keys;
    const due = { prefix: hidden, end: [...hidden, Math.floor(now) + 1] };
    const entries = (await Promise.all([
      this.#store.list(this.#action, due, MAX_DUE),
      this.#store.list(this.#action, { prefix: ready }, max, ({ value }) => {
        return (count += (value as readonly Uint8Array[]).length) >= max;
      }),
    ])).flat();
    if (entries[0]?.key.length === this.#keys.paused.length) return undefined;
    const sources = entries.map((entry) => ({
      entry,
      messages: unpackAll(entry.value),
      taken: 0,
    }));
    const all = sources.flatMap((source) => {
      return source.messages.map((message) => ({ message, source }));
    });
    all.sort((a, b) => inOrder(a.message, b.message));
    for (const { source } of all.slice(0, max)) source.taken++;
    return sources.filter(({ taken }) => taken > 0);
  }

  #take(sources: readonly Source[], dueAt: number): Promise<string | undefined> {
    return this.#store.commit(this.#action, (atomic) => {
      atomic.check({ key: this.#keys.paused, versionstamp: null });
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

  /**
   * Lets messages whose delay is over join the messages of their keys: each becomes ready, or blocked. Each
   * has an entry of its own. Returns false when another process changed the entries first.
   */
  async #join(sources: readonly Source[]): Promise<boolean> {
    const joining = sources.filter(isJoining).slice(0, MAX_JOINS);
    const messages = joining.map(({ messages: [message] }) => ({ ...message!, joined: true }));
    const lines = await this.#lines.read(this.#action, messages);
    const taken = new Set([...lines].flatMap(([key, { value }]) => value === null ? [] : key));
    const versionstamp = await this.#store.commit(this.#action, (atomic) => {
      for (const { entry: { key, versionstamp } } of joining) {
        atomic.check({ key, versionstamp }).delete(key);
      }
      this.#lines.join(atomic, lines.values());
      for (const message of messages) {
        const key = message.key!;
        if (taken.has(key)) this.#lines.block(atomic, key, [message]);
        else atomic.set(this.#keys.placeOf(message), [pack(message)]);
        taken.add(key);
      }
    });
    return versionstamp !== undefined;
  }

  async #nextDueMs(now: number): Promise<number> {
    const { hidden } = this.#keys;
    const [next] = await this.#store.list(this.#action, { prefix: hidden }, 1);
    return next === undefined ? Infinity : Math.max(0, Number(next.key[hidden.length]) - now);
  }
}

/** Returns the large messages with their text, by message number. */
export async function largeOf(
  store: Store,
  keys: Keys,
  action: string,
  messages: readonly KvMessage[],
): Promise<ReadonlyMap<number, KvMessage>> {
  const large = messages.filter(({ parts }) => parts > 0);
  return new Map(
    await Promise.all(large.map(async (message) => {
      const entries = await store.getAll(action, keys.parts(message));
      const parts = entries.flatMap(({ value }) => value === null ? [] : [value as Uint8Array]);
      return [message.seq, withText(message, parts)] as const;
    })),
  );
}

/** Returns true for the entry of a message with a key whose delay has ended. */
function isJoining({ messages: [message] }: Source): boolean {
  return message?.key !== undefined && !message.joined;
}

function done(deliveries: readonly KvDelivery[]): KvReceived {
  return { deliveries, nextDueMs: 0 };
}

function delivered(message: KvMessage): KvMessage {
  return { ...message, deliveries: message.deliveries + 1, leased: true };
}
