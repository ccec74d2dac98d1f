import type { KvAtomic } from "./kv.ts";
import { type Keys, type KvDelivery, weightOf } from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

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
