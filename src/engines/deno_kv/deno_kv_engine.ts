import { wakeUps } from "../_kit/wake_ups.ts";
import {
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  type RateLimit,
  type Received,
  type StoredMessage,
} from "../../mailbox/engine.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import type { Log } from "../../log.ts";
import { Administration, subtract } from "./_administration.ts";
import { type KvDelivery, Settler } from "./_leases.ts";
import { KvOwner } from "./_owner.ts";
import { Receiver } from "./_receiver.ts";
import { Keys } from "./_keys.ts";
import { type KvMessage, MAX_VALUE_BYTES, pack } from "./_record.ts";
import { Sender } from "./_sender.ts";
import type { Store } from "./_store.ts";

/** What a {@linkcode DenoKvEngine} works with. */
export interface DenoKvEngineParts {
  readonly store: Store;
  readonly maxSize: number;
  readonly pollIntervalMs: number;
  /** Where dead processes are reported. Without it, none is looked for. */
  readonly log?: Log | undefined;
}

/** One queue in a store. All times are by the wall clock, on which its processes have to agree. */
export class DenoKvEngine implements Engine<string> {
  readonly capabilities: Capabilities;
  readonly label = "Deno KV";
  readonly #name: string;
  readonly #parts: DenoKvEngineParts;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #sender: Sender;
  readonly #receiver: Receiver;
  readonly #settler: Settler;
  readonly #administration: Administration;
  readonly #owner: KvOwner | undefined;
  /** The listeners, and what stops each. */
  readonly #wakeUps = new Map<() => void, () => void>();
  #dead: DenoKvEngine | undefined;

  constructor(name: string, parts: DenoKvEngineParts) {
    const { store, maxSize, log } = parts;
    const wake = () => this.#wake();
    this.capabilities = {
      ...FULL_CAPABILITIES,
      lookup: false, // a key for each id would double what a send and an acknowledgement write
      transactions: false, // Deno KV has no open transactions
      ownerDetection: log !== undefined,
    };
    this.#name = name;
    this.#parts = parts;
    this.#store = store;
    this.#keys = new Keys(name);
    this.#sender = new Sender(name, store, this.#keys, maxSize);
    this.#owner = log && new KvOwner({ queue: name, store, keys: this.#keys, log, wake });
    this.#receiver = new Receiver(name, store, this.#keys, this.#owner);
    this.#settler = new Settler(store, this.#keys);
    this.#administration = new Administration(name, store, this.#keys);
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#sender.send(entries);
    this.#wake();
    return stored;
  }

  receive(max: number, visibilityMs: number): Promise<Received<string>> {
    return this.#receiver.receive(max, visibilityMs);
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const now = this.#store.clock.now();
    const results = await this.#settler.change(deliveries as readonly KvDelivery[], {
      action: this.#action("acknowledge"),
      removes: true,
      each: (atomic, { key, message }) => {
        this.#keys.deleteExtras(atomic.delete(key), message, now);
      },
      all: (atomic, count) => subtract(atomic, this.#keys.count, count),
      done: settled,
    });
    this.#wakeFollowers(deliveries);
    return results;
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const endsAt = Math.ceil(this.#store.clock.now() + visibilityMs);
    const keyOf = ({ message }: KvDelivery) => this.#keys.placeOf(message, endsAt);
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

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const dueAt = delayMs === 0 ? undefined : Math.ceil(this.#store.clock.now() + delayMs);
    return this.#requeue("nack", deliveries, dueAt, (message) => {
      return countsAttempt ? message : { ...message, deliveries: message.deliveries - 1 };
    });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#requeue("release", deliveries, undefined, (message) => {
      const restored = message.releases < FREE_RELEASES ? 1 : 0;
      const releases = message.releases + 1;
      return { ...message, releases, deliveries: message.deliveries - restored };
    });
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const now = this.#store.clock.now();
    const store = this.deadLetters().#sender.plan(letter);
    const [moved = false] = await this.#settler.change([delivery as KvDelivery], {
      action: this.#action("dead-letter"),
      removes: true,
      each: (atomic, { key, message }) => {
        this.#keys.deleteExtras(atomic.delete(key), message, now);
        subtract(atomic, this.#keys.count, 1);
        store(atomic);
      },
      done: settled,
    });
    this.#wakeFollowers([delivery]);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const bytes = new TextEncoder().encode(checkpoint);
    if (bytes.byteLength > MAX_VALUE_BYTES) {
      throw new InvalidParameterError(
        `Cannot save a checkpoint of ${bytes.byteLength} bytes: Deno KV accepts ${MAX_VALUE_BYTES}. ` +
          "Store it elsewhere and save a reference",
      );
    }
    const withCheckpoint = (message: KvMessage) => ({
      ...message,
      hasCheckpoint: true,
      releases: 0,
    });
    const [saved = false] = await this.#settler.change([delivery as KvDelivery], {
      action: this.#action("checkpoint"),
      each: (atomic, { key, message }) => {
        atomic.set(this.#keys.checkpoint(message), bytes);
        atomic.set(key, [pack(withCheckpoint(message))]);
      },
      done: (it, versionstamp) =>
        void Object.assign(it, { versionstamp, message: withCheckpoint(it.message) }),
    });
    return saved;
  }

  peek(max: number, skip = 0): Promise<readonly StoredMessage<string>[]> {
    return this.#administration.peek(max, skip);
  }

  count(): Promise<number> {
    return this.#sender.count();
  }

  async stats(): Promise<EngineStats> {
    return await this.#administration.stats(await this.count());
  }

  purge(): Promise<number> {
    return this.#administration.purge();
  }

  async pause(forMs: number): Promise<void> {
    await this.#administration.pause(forMs);
    this.#wake();
  }

  async rateLimit(limit: RateLimit | undefined): Promise<void> {
    await this.#administration.rateLimit(limit);
    this.#wake();
  }

  /**
   * Wakes a listener at once for sends of this mailbox, by a watched key for sends of others, and by polling
   * for other processes on the same file, which a watch does not see.
   */
  onWake(listener: () => void): () => void {
    const watch = (wake: () => void) => this.#store.watch(this.#keys.wakes, wake);
    const stop = wakeUps(watch, this.#store.clock, this.#parts.pollIntervalMs, listener);
    this.#wakeUps.set(listener, stop);
    return () => {
      this.#wakeUps.delete(listener);
      stop();
    };
  }

  deadLetters(): DenoKvEngine {
    return this.#dead ??= this.queue(`${this.#name}.dead`);
  }

  queue(name: string): DenoKvEngine {
    // Nothing closes it, so it must not register.
    return new DenoKvEngine(name, { ...this.#parts, maxSize: Infinity, log: undefined });
  }

  queues(): Promise<string[]> {
    return this.#administration.queues();
  }

  drop(): Promise<void> {
    return this.#administration.drop(this.#keys, this.deadLetters().#keys);
  }

  async close(): Promise<void> {
    this.#stopWakeUps();
    this.#owner?.close();
    await this.#store.close();
  }

  #stopWakeUps(): void {
    for (const stop of this.#wakeUps.values()) stop();
    this.#wakeUps.clear();
    if (this.#dead !== undefined) this.#dead.#stopWakeUps();
  }

  #wake(): void {
    for (const listener of this.#wakeUps.keys()) listener();
  }

  #action(verb: string): string {
    return `${verb} ("${this.#name}")`;
  }

  /** Wakes receivers for messages that waited behind these. Others are woken by the change of a key. */
  #wakeFollowers(deliveries: readonly Delivery<string>[]): void {
    if ((deliveries as readonly KvDelivery[]).some(({ message }) => message.key)) this.#wake();
  }

  async #requeue(
    verb: string,
    deliveries: readonly Delivery<string>[],
    dueAt: number | undefined,
    change: (message: KvMessage) => KvMessage,
  ): Promise<boolean[]> {
    const results = await this.#settler.change(deliveries as readonly KvDelivery[], {
      action: this.#action(verb),
      each: (atomic, { key, message }) => {
        const returned = { ...change(message), leased: false, owner: undefined };
        atomic.delete(key).set(this.#keys.placeOf(message, dueAt), [pack(returned)]);
      },
      all: (atomic) => void atomic.sum(this.#keys.wakes, 1n),
      done: settled,
    });
    this.#wake();
    return results;
  }
}

function settled(delivery: KvDelivery): void {
  delivery.leaseEndsAt = -Infinity;
}
