import { chunksOf } from "./_chunks.ts";
import { KvDelivery } from "./_delivery.ts";
import type { Keys } from "./_keys.ts";
import type { KvEntry } from "./kv.ts";
import { pack, type StoredMessage, unpack } from "./_record.ts";
import type { Store } from "./_store.ts";

/** How many due messages a pull considers. Only when more are due, some may be delivered out of order. */
const MAX_DUE = 1_000;

/** An entry of the store, and how many of its messages a pull takes. */
interface Source {
  readonly entry: KvEntry;
  readonly messages: readonly StoredMessage[];
  taken: number;
}

/** The result of a pull. */
export interface KvPulled {
  readonly deliveries: readonly KvDelivery[];
  readonly nextDueMs: number;
}

/** Leases messages, one pull at a time: parallel pulls of this process would conflict. */
export class Puller {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string, store: Store, keys: Keys) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
  }

  pull(max: number, visibilityMs: number): Promise<KvPulled> {
    const attempt = () => this.#pull(max, visibilityMs);
    const pulled = this.#last.then(() => this.#store.retryConflicts(this.#action, attempt));
    this.#last = pulled.catch(() => {});
    return pulled;
  }

  get #action(): string {
    return `receive ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #pull(max: number, visibilityMs: number): Promise<KvPulled | undefined> {
    const now = this.#store.clock.now();
    const sources = await this.#sources(max, now);
    if (sources.length === 0) return { deliveries: [], nextDueMs: await this.#nextDueMs(now) };
    const checkpoints = await this.#checkpointsOf(sources);
    const dueAt = Math.ceil(now + visibilityMs);
    const deliveries: KvDelivery[] = [];
    const chunks = chunksOf(sources, ({ taken, messages }) => ({
      keyBytes: this.#keys.bytes * (taken + 3),
      bytes: messages.reduce((sum, { body }) => sum + 3 * body.length + 300, 0),
    }));
    for (const chunk of chunks) {
      const versionstamp = await this.#take(chunk, dueAt);
      if (versionstamp === undefined) return deliveries.length > 0 ? done(deliveries) : undefined;
      for (const { messages, taken } of chunk) {
        for (const message of messages.slice(0, taken).map(delivered)) {
          const key = this.#keys.hiddenAt(dueAt, message.seq, message.nonce);
          const saved = checkpoints.get(message.seq);
          deliveries.push(new KvDelivery(message, key, versionstamp, dueAt, saved));
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
    const sources = entries.map((entry) => {
      return { entry, messages: (entry.value as readonly Uint8Array[]).map(unpack), taken: 0 };
    });
    const all = sources.flatMap((source) => source.messages.map(({ seq }) => ({ seq, source })));
    all.sort((a, b) => a.seq - b.seq);
    for (const { source } of all.slice(0, max)) source.taken++;
    return sources.filter(({ taken }) => taken > 0);
  }

  #take(sources: readonly Source[], dueAt: number): Promise<string | undefined> {
    return this.#store.commit(this.#action, (atomic) => {
      for (const { entry: { key, versionstamp }, messages, taken } of sources) {
        atomic.check({ key, versionstamp }).delete(key);
        for (const { seq, nonce, ...rest } of messages.slice(0, taken).map(delivered)) {
          atomic.set(this.#keys.hiddenAt(dueAt, seq, nonce), [pack({ seq, nonce, ...rest })]);
        }
        const [first, ...others] = messages.slice(taken);
        if (first === undefined) continue;
        atomic.set(this.#keys.readyAt(first.seq, first.nonce), [first, ...others].map(pack));
      }
    });
  }

  /** Returns the checkpoints by message number. They cannot change while no worker has the lease. */
  async #checkpointsOf(sources: readonly Source[]): Promise<ReadonlyMap<number, string>> {
    const saved = sources.flatMap(({ messages, taken }) => messages.slice(0, taken))
      .filter(({ progress }) => progress);
    if (saved.length === 0) return new Map();
    const keys = saved.map(({ seq, nonce }) => this.#keys.progress(seq, nonce));
    const entries = await this.#store.getAll(this.#action, keys);
    const decoder = new TextDecoder();
    return new Map(entries.flatMap(({ value }, i) => {
      return value === null ? [] : [[saved[i]!.seq, decoder.decode(value as Uint8Array)]];
    }));
  }

  async #nextDueMs(now: number): Promise<number> {
    const { hidden } = this.#keys;
    const [next] = await this.#store.list(this.#action, { prefix: hidden }, 1);
    return next === undefined ? Infinity : Math.max(0, Number(next.key[hidden.length]) - now);
  }
}

function done(deliveries: readonly KvDelivery[]): KvPulled {
  return { deliveries, nextDueMs: 0 };
}

function delivered(message: StoredMessage): StoredMessage {
  return { ...message, deliveries: message.deliveries + 1 };
}
