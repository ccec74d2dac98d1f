import type { Cancel } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { OwnerWatch } from "../_kit/owners.ts";
import type { KvAtomic, KvEntry, KvKey } from "./kv.ts";
import type { KvDelivery } from "./_leases.ts";
import type { Keys } from "./_keys.ts";
import { pack, unpackAll, weightOf } from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

/** How often a process that holds messages writes a time stamp. */
const STAMP_INTERVAL_MS = 5_000;

/** From which age on a time stamp is suspicious. Clocks may differ, so it proves nothing yet. */
const SILENT_MS = 10_000;

/** How long a suspicious time stamp must stay unchanged: longer than the interval. */
const GRACE_MS = 6_000;

/** Options of {@linkcode KvOwner}. */
export interface KvOwnerOptions {
  readonly queue: string;
  readonly store: Store;
  readonly keys: Keys;
  readonly log: Log;
  /** Wakes the receivers of this process. */
  wake(): void;
}

/**
 * This process among those that lease messages of a queue.
 *
 * Deno KV does not tell which processes are connected. So a process that holds messages writes a time stamp
 * under a key of its own: with a delivery, if the last one is old, and by a timer otherwise. Other processes
 * take it for dead when the time stamp is old and does not change any more. A process that holds no message
 * deletes its key and writes nothing.
 *
 * A process that is blocked or frozen for longer is taken for dead as well. Its receipt handles are stale then.
 */
export class KvOwner {
  /** Part of the leases of this process. */
  readonly id: string;
  readonly #options: KvOwnerOptions;
  readonly #watch: OwnerWatch<string>;
  readonly #held = new Set<KvDelivery>();
  /** When the time stamp was written, and its versionstamp; undefined while there is none. */
  #stamp: { readonly at: number; readonly versionstamp: string } | undefined;
  /** How many receives run. */
  #receiving = 0;
  #cancel: Cancel | undefined;
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(options: KvOwnerOptions) {
    const { random, clock } = options.store;
    this.#options = options;
    this.id = Math.floor(random.number() * 2 ** 48).toString(36);
    this.#watch = new OwnerWatch<string>({
      absent: () => this.#absent(),
      expire: (silent) => this.#expire(silent),
    }, { queue: options.queue, clock, log: options.log, graceMs: GRACE_MS });
  }

  /** Tells that a receive begins: until it ends, the key is not deleted. */
  begin(): void {
    this.#receiving++;
  }

  /** Tells that a receive has ended. */
  end(): void {
    this.#receiving--;
  }

  /** Returns true when the next delivery must write a time stamp. */
  needsStamp(): boolean {
    return this.#now - (this.#stamp?.at ?? -Infinity) >= STAMP_INTERVAL_MS;
  }

  /** Adds a time stamp to a commit. */
  stamp(atomic: KvAtomic): void {
    atomic.set(this.#key, this.#options.store.clock.now());
  }

  /** Tells that a commit has written a time stamp. */
  stamped(versionstamp: string): void {
    this.#stamp = { at: this.#now, versionstamp };
  }

  /** Writes time stamps as long as one of these deliveries is held. */
  hold(deliveries: readonly KvDelivery[]): void {
    for (const delivery of deliveries) this.#held.add(delivery);
    if (this.#held.size > 0) this.#cancel ??= this.#schedule();
  }

  /** Shortens a wait of `dueMs` to the next look, if another process holds messages. */
  async waitMs(action: string, dueMs: number): Promise<number> {
    if (dueMs === Infinity) return dueMs;
    const others = await this.#others(action);
    return others.length === 0 ? dueMs : Math.min(dueMs, this.#watch.nextLookMs);
  }

  /** Looks for processes that have died, in the background, at most once a second. */
  look(): void {
    if (!this.#closed) this.#watch.look();
  }

  /**
   * Begins to delete the key of this process; leases that are left expire. The close of the store waits for it,
   * but not for a store that does not answer. Then the key stays, and another process deletes it.
   */
  close(): void {
    this.#closed = true;
    this.#cancel?.();
    void this.#watch.stop();
    this.#held.clear();
    const deleting = this.#writing?.then(() => this.#write()) ?? this.#write();
    deleting.catch(() => {});
  }

  get #key(): KvKey {
    return [...this.#options.keys.owners, this.id];
  }

  get #now(): number {
    return this.#options.store.clock.monotonic();
  }

  #schedule(): Cancel {
    return this.#options.store.clock.schedule(STAMP_INTERVAL_MS, () => {
      this.#writing = this.#write()
        .catch((error) => {
          const { log, queue } = this.#options;
          log.debug("cannot write the time stamp of this process", { mailbox: queue, error });
        })
        .finally(() => {
          this.#writing = undefined;
          this.#cancel = this.#closed || this.#stamp === undefined ? undefined : this.#schedule();
        });
    });
  }

  /** Writes a time stamp, or deletes it when this process holds no message. */
  async #write(): Promise<void> {
    const { store, queue } = this.#options;
    const action = `register ("${queue}")`;
    const now = store.clock.now();
    for (const it of this.#held) if (it.leaseEndsAt <= now) this.#held.delete(it);
    if (this.#held.size > 0 || this.#receiving > 0) {
      if (this.#held.size === 0 || !this.needsStamp()) return;
      const versionstamp = await store.commit(action, (atomic) => this.stamp(atomic));
      return this.stamped(versionstamp!);
    }
    const stamp = this.#stamp;
    if (stamp === undefined) return;
    this.#stamp = undefined;
    // A delivery that begins now writes a new one, which must stay.
    await store.commit(action, (atomic) => {
      atomic.check({ key: this.#key, versionstamp: stamp.versionstamp }).delete(this.#key);
    });
  }

  async #others(action: string): Promise<readonly KvEntry[]> {
    const { store, keys } = this.#options;
    const entries = await store.list(action, { prefix: keys.owners });
    return entries.filter(({ key }) => key.at(-1) !== this.id);
  }

  /** Returns silent processes. A new time stamp makes another name, so that the grace begins again. */
  async #absent(): Promise<readonly string[]> {
    const now = this.#options.store.clock.now();
    const others = await this.#others(this.#action);
    return others
      .filter(({ value }) => now - Number(value) >= SILENT_MS)
      .map(({ key, versionstamp }) => `${key.at(-1)}@${versionstamp}`);
  }

  async #expire(silent: string): Promise<number> {
    const { store, keys, wake } = this.#options;
    const [id = "", versionstamp = ""] = silent.split("@");
    const ownerKey = [...keys.owners, id];
    const hidden = { prefix: keys.hidden, start: [...keys.hidden, 0] };
    const leases = (await store.list(this.#action, hidden)).flatMap((entry) => {
      const [message, other] = unpackAll(entry); // a leased message has an entry of its own
      return message?.owner === id && other === undefined ? [{ entry, message }] : [];
    });
    const chunks = chunksOf(leases, ({ message }) => ({
      keyBytes: 3 * keys.bytes,
      bytes: weightOf(message),
    }));
    let expired = 0;
    for (const chunk of chunks) {
      const committed = await store.commit(this.#action, (atomic) => {
        atomic.check({ key: ownerKey, versionstamp });
        for (const { entry: { key, versionstamp }, message } of chunk) {
          const { expiries } = message;
          const returned = { ...message, leased: false, owner: undefined, expiries: expiries + 1 };
          atomic.check({ key, versionstamp }).delete(key);
          atomic.set(keys.placeOf(message), [pack(returned)]);
        }
        atomic.sum(keys.wakes, 1n);
      });
      // It has written again, or another process was faster. The next look tells.
      if (committed === undefined) return expired;
      expired += chunk.length;
    }
    await store.commit(this.#action, (atomic) => {
      atomic.check({ key: ownerKey, versionstamp }).delete(ownerKey);
    });
    if (expired > 0) wake();
    return expired;
  }

  get #action(): string {
    return `look for dead workers ("${this.#options.queue}")`;
  }
}
