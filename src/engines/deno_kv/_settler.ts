import { chunksOf } from "./_chunks.ts";
import type { KvDelivery } from "./_delivery.ts";
import type { Keys } from "./_keys.ts";
import type { KvAtomic } from "./kv.ts";
import type { Store } from "./_store.ts";

/** What is done with deliveries. */
export interface Change {
  readonly what: string;
  /** Adds the changes of one delivery. */
  each(atomic: KvAtomic, delivery: KvDelivery): void;
  /** Adds the changes of all together. */
  all?(atomic: KvAtomic, count: number): void;
  /** The change is made, and this is its stamp. */
  done(delivery: KvDelivery, versionstamp: string): void;
}

/** Changes what was taken, as long as it is. */
export class Settler {
  readonly #store: Store;
  readonly #keys: Keys;

  constructor(store: Store, keys: Keys) {
    this.#store = store;
    this.#keys = keys;
  }

  /** Tells for each whether its receipt was still good. */
  change(deliveries: readonly KvDelivery[], change: Change): Promise<boolean[]> {
    const quiet = Promise.all(deliveries.map((it) => it.quiet));
    const changed = quiet.then(() => this.#change(deliveries, change));
    const over = changed.catch(() => {});
    for (const it of deliveries) it.quiet = over;
    return changed;
  }

  async #change(deliveries: readonly KvDelivery[], change: Change): Promise<boolean[]> {
    const now = this.#store.clock.now();
    const open = deliveries.filter(({ leaseEndsAt }) => leaseEndsAt > now);
    const chunks = chunksOf(open, ({ message: { body, id, dedup } }) => ({
      keyBytes: 4 * this.#keys.bytes + (dedup ? 3 * id.length : 0),
      bytes: 3 * body.length + 300,
    }));
    const results = await Promise.all(chunks.map((chunk) => this.#changeChunk(chunk, change)));
    const good = new Set(results.flat());
    return deliveries.map((it) => good.has(it));
  }

  /** Those whose receipt was still good. */
  #changeChunk(chunk: readonly KvDelivery[], change: Change): Promise<readonly KvDelivery[]> {
    let open = chunk;
    return this.#store.insist(change.what, async () => {
      if (open.length === 0) return open;
      const versionstamp = await this.#store.commit(change.what, (atomic) => {
        for (const it of open) atomic.check({ key: it.key, versionstamp: it.versionstamp });
        for (const it of open) change.each(atomic, it);
        change.all?.(atomic, open.length);
      });
      if (versionstamp !== undefined) {
        for (const it of open) change.done(it, versionstamp);
        return open;
      }
      const entries = await this.#store.getAll(change.what, open.map(({ key }) => key));
      open = open.filter((it, i) => entries[i]!.versionstamp === it.versionstamp);
      return open.length === 0 ? open : undefined;
    });
  }
}
