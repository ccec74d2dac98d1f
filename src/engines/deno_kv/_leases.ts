// Leases: what a worker holds, and how it is changed.

import type { Delivery } from "../../mailbox/engine.ts";
import type { KvAtomic, KvKey } from "./kv.ts";
import { Lines, type Next } from "./_lines.ts";
import type { Keys } from "./_keys.ts";
import { type KvMessage, weightOf } from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

/** What the block behind a message with a key weighs at most. */
const NEXT_BYTES = 70_000;

/** A message that was received. The versionstamp of its entry is the proof of the lease. */
export class KvDelivery implements Delivery<string> {
  message: KvMessage;
  key: KvKey;
  versionstamp: string;
  /** By the wall clock, in milliseconds. */
  leaseEndsAt: number;
  readonly receiptHandle: string;
  readonly checkpoint: string | undefined;
  /** Resolves when the last change is complete. Changes are serialized, as each makes a new versionstamp. */
  lastChange: Promise<unknown> = Promise.resolve();

  constructor(
    message: KvMessage,
    key: KvKey,
    versionstamp: string,
    leaseEndsAt: number,
    checkpoint: string | undefined,
  ) {
    this.message = message;
    this.key = key;
    this.versionstamp = versionstamp;
    this.leaseEndsAt = leaseEndsAt;
    this.receiptHandle = `${message.seq}-${message.nonce}-${versionstamp}`;
    this.checkpoint = checkpoint;
  }

  get id(): string {
    return this.message.id;
  }

  get meta(): string | undefined {
    const { text, metaLength } = this.message;
    return metaLength === 0 ? undefined : text.slice(0, metaLength);
  }

  get body(): string {
    return this.message.text.slice(this.message.metaLength);
  }

  get deliveryCount(): number {
    return this.message.deliveries;
  }

  get leaseExpiries(): number {
    return this.message.expiries;
  }

  get enqueuedAt(): number {
    return this.message.enqueuedAt;
  }
}
/** A change of deliveries. */
export interface Change {
  /** The verb for errors. */
  readonly action: string;
  /** Adds the operations of one delivery. */
  each(atomic: KvAtomic, delivery: KvDelivery): void;
  /** Adds the operations of the whole chunk. */
  all?(atomic: KvAtomic, count: number): void;
  /** True when the messages leave the queue, so that others with their keys can follow. */
  readonly removes?: boolean;
  /** Called after the commit, with its versionstamp. */
  done(delivery: KvDelivery, versionstamp: string): void;
}

/** Changes leased messages while their leases last. */
export class Settler {
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #lines: Lines;

  constructor(store: Store, keys: Keys) {
    this.#store = store;
    this.#keys = keys;
    this.#lines = new Lines(store, keys);
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
        (message.dedup ? 3 * message.id.length : 0) + 15 * (message.key?.length ?? 0),
      bytes: weightOf(message) + (message.key === undefined ? 0 : NEXT_BYTES),
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
      const followers = await this.#followers(open, change);
      const versionstamp = await this.#store.commit(change.action, (atomic) => {
        for (const it of open) atomic.check({ key: it.key, versionstamp: it.versionstamp });
        for (const it of open) change.each(atomic, it);
        const ready = followers.filter((next) => this.#lines.leave(atomic, next));
        if (ready.length > 0) atomic.sum(this.#keys.wakes, 1n);
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

  /** Reads which messages become ready when these leave. */
  async #followers(open: readonly KvDelivery[], change: Change): Promise<readonly Next[]> {
    if (change.removes !== true) return [];
    return await this.#lines.next(change.action, open.map(({ message }) => message));
  }
}
