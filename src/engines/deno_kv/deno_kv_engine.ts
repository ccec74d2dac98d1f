import type { Log } from "../../log.ts";
import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  type Pulled,
} from "../../mailbox/engine.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { KvDelivery } from "./_delivery.ts";
import { Keys } from "./_keys.ts";
import type { KvAtomic } from "./kv.ts";
import { Puller } from "./_puller.ts";
import { Pusher } from "./_pusher.ts";
import { MAX_VALUE_BYTES, pack, type StoredMessage, unpack } from "./_record.ts";
import { Settler } from "./_settler.ts";
import type { Store } from "./_store.ts";
import { Wakes } from "./_wakes.ts";

/** How many entries a purge deletes per commit. */
const PURGE_STEP = 20;

/** Options of {@linkcode DenoKvEngine}. */
export interface DenoKvEngineParts {
  readonly store: Store;
  readonly log: Log;
  readonly maxSize: number;
  readonly pollIntervalMs: number;
}

/** One queue in a store. All times are by the wall clock, on which its processes have to agree. */
export class DenoKvEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "Deno KV";
  readonly #name: string;
  readonly #parts: DenoKvEngineParts;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #pusher: Pusher;
  readonly #deadPusher: Pusher;
  readonly #puller: Puller;
  readonly #settler: Settler;
  readonly #wakes: Wakes;

  constructor(name: string, parts: DenoKvEngineParts) {
    const { store, maxSize, pollIntervalMs, log } = parts;
    this.#name = name;
    this.#parts = parts;
    this.#store = store;
    this.#keys = new Keys(name);
    this.#pusher = new Pusher(name, store, this.#keys, maxSize);
    this.#deadPusher = new Pusher(this.#deadName, store, new Keys(this.#deadName), Infinity);
    this.#puller = new Puller(name, store, this.#keys);
    this.#settler = new Settler(store, this.#keys);
    this.#wakes = new Wakes(store, this.#keys.wakes, pollIntervalMs, log);
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#pusher.push(entries);
    this.#wakes.wake();
    return stored;
  }

  pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    return this.#puller.pull(max, visibilityMs);
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settler.change(deliveries as readonly KvDelivery[], {
      action: this.#action("acknowledge"),
      each: (atomic, { key, message }) => this.#deleteExtras(atomic.delete(key), message),
      all: (atomic, count) => void atomic.sum(this.#keys.count, minus(count)),
      done: settled,
    });
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const endsAt = Math.ceil(this.#store.clock.now() + visibilityMs);
    const keyOf = ({ message }: KvDelivery) =>
      this.#keys.hiddenAt(endsAt, message.seq, message.nonce);
    return this.#settler.change(deliveries as readonly KvDelivery[], {
      action: this.#action("extend"),
      each(atomic, it) {
        // A longer lease is only checked.
        if (it.leaseEndsAt < endsAt) atomic.delete(it.key).set(keyOf(it), [pack(it.message)]);
      },
      done(it, versionstamp) {
        if (it.leaseEndsAt >= endsAt) return;
        Object.assign(it, { key: keyOf(it), versionstamp, leaseEndsAt: endsAt });
      },
    });
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const dueAt = delayMs === 0 ? 0 : Math.ceil(this.#store.clock.now() + delayMs);
    return this.#requeue("nack", deliveries, dueAt, (message) => {
      return countsAttempt ? message : { ...message, deliveries: message.deliveries - 1 };
    });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#requeue("release", deliveries, 0, (message) => {
      const restored = message.releases < FREE_RELEASES ? 1 : 0;
      const releases = message.releases + 1;
      return { ...message, releases, deliveries: message.deliveries - restored };
    });
  }

  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    const { id, replyTo } = delivery;
    const addDeadLetter = this.#deadPusher.plan([
      { id, replyTo, body: deadLetter, delayMs: 0, dedup: false },
    ]);
    const [moved = false] = await this.#settler.change([delivery as KvDelivery], {
      action: this.#action("dead-letter"),
      each: (atomic, { key, message }) => {
        this.#deleteExtras(atomic.delete(key), message).sum(this.#keys.count, minus(1));
        addDeadLetter(atomic);
      },
      done: settled,
    });
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const bytes = new TextEncoder().encode(progress);
    if (bytes.byteLength > MAX_VALUE_BYTES) {
      throw new InvalidParameterError(
        `Cannot save a checkpoint of ${bytes.byteLength} bytes: Deno KV accepts ${MAX_VALUE_BYTES}. ` +
          "Store it elsewhere and save a reference",
      );
    }
    const withCheckpoint = (message: StoredMessage) => ({ ...message, progress: true });
    const [saved = false] = await this.#settler.change([delivery as KvDelivery], {
      action: this.#action("checkpoint"),
      each: (atomic, { key, message }) => {
        const { seq, nonce } = message;
        atomic.set(this.#keys.progress(seq, nonce), bytes).set(key, [
          pack(withCheckpoint(message)),
        ]);
      },
      done: (it, versionstamp) =>
        void Object.assign(it, { versionstamp, message: withCheckpoint(it.message) }),
    });
    return saved;
  }

  async peek(max: number): Promise<readonly KvDelivery[]> {
    const entries = (await Promise.all([
      this.#store.list(this.#action("peek"), { prefix: this.#keys.ready }, max),
      this.#store.list(this.#action("peek"), { prefix: this.#keys.hidden }),
    ])).flat();
    return entries.flatMap(({ value }) => (value as readonly Uint8Array[]).map(unpack))
      .sort((a, b) => a.seq - b.seq)
      .slice(0, max)
      .map((message) => new KvDelivery(message, [], "", 0, undefined));
  }

  count(): Promise<number> {
    return this.#pusher.count();
  }

  /** Deletes in several commits, each with an exact count. It also deletes messages sent meanwhile. */
  async purge(): Promise<number> {
    let purged = 0;
    for (const prefix of [this.#keys.ready, this.#keys.hidden]) {
      for (let step = -1; step !== 0; purged += step) {
        step = await this.#store.retryConflicts(this.#action("purge"), async () => {
          const entries = await this.#store.list(this.#action("purge"), { prefix }, PURGE_STEP);
          const messages = entries.flatMap(({ value }) => (value as Uint8Array[]).map(unpack));
          if (messages.length === 0) return 0;
          const done = await this.#store.commit(this.#action("purge"), (atomic) => {
            for (const { key, versionstamp } of entries) {
              atomic.check({ key, versionstamp }).delete(key);
            }
            for (const message of messages) this.#deleteExtras(atomic, message);
            atomic.sum(this.#keys.count, minus(messages.length));
          });
          return done === undefined ? undefined : messages.length;
        });
      }
    }
    return purged;
  }

  onWake(listener: () => void): () => void {
    return this.#wakes.listen(listener);
  }

  /** Shares the store, which this engine closes for both. */
  deadLetters(): DenoKvEngine {
    return new DeadLetterEngine(this.#deadName, { ...this.#parts, maxSize: Infinity });
  }

  async close(): Promise<void> {
    this.#wakes.stop();
    await this.#store.close();
  }

  get #deadName(): string {
    return `${this.#name}.dead`;
  }

  #action(verb: string): string {
    return `${verb} ("${this.#name}")`;
  }

  /** Deletes the chosen id and the checkpoint of a message. */
  #deleteExtras(atomic: KvAtomic, { seq, nonce, id, dedup, progress }: StoredMessage): KvAtomic {
    if (dedup) atomic.delete(this.#keys.chosenId(id));
    if (progress) atomic.delete(this.#keys.progress(seq, nonce));
    return atomic;
  }

  async #requeue(
    verb: string,
    deliveries: readonly Delivery<string>[],
    dueAt: number,
    change: (message: StoredMessage) => StoredMessage,
  ): Promise<boolean[]> {
    const results = await this.#settler.change(deliveries as readonly KvDelivery[], {
      action: this.#action(verb),
      each: (atomic, { key, message }) => {
        const { seq, nonce } = message;
        const to = dueAt === 0
          ? this.#keys.readyAt(seq, nonce)
          : this.#keys.hiddenAt(dueAt, seq, nonce);
        atomic.delete(key).set(to, [pack(change(message))]);
      },
      all: (atomic) => void atomic.sum(this.#keys.wakes, 1n),
      done: settled,
    });
    this.#wakes.wake();
    return results;
  }
}

/** Leaves the shared store open: the engine of the mailbox closes it. */
class DeadLetterEngine extends DenoKvEngine {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

function settled(delivery: KvDelivery): void {
  delivery.leaseEndsAt = -Infinity;
}

/** Deno KV adds modulo 2⁶⁴, so this summand subtracts. */
function minus(count: number): bigint {
  return BigInt.asUintN(64, BigInt(-count));
}
