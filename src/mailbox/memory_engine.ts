import { DueQueue } from "../_due_queue.ts";
import type { Clock } from "../clock.ts";
import {
  type Capabilities,
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  FULL_CAPABILITIES,
  type RateLimit,
  type Received,
} from "./engine.ts";
import { fullError } from "./errors.ts";
import { MemoryDelivery, Slot } from "./_memory_line.ts";
import { Lines, RememberedIds } from "./_memory_lines.ts";
import { QueueControl } from "./queue_control.ts";

/** Nothing survives the process, so there is no dead owner to detect. */
const CAPABILITIES = { ...FULL_CAPABILITIES, transactions: false, ownerDetection: false };

/**
 * Stores messages in the memory of this process.
 *
 * ```text
 * send ─▶ ready ── receive ──▶ leased ── acknowledge, deadLetter, cancel ──▶ gone
 *   ├─ delay ─▲                   │
 *   │         ├─ release, nack, or the lease expires
 *   └─ key ───┴─ the message before it with the same key is gone
 * ```
 *
 * No timer runs: `receive` moves messages that are due back to `ready`, each to its old place.
 */
export class MemoryEngine<B> implements Engine<B> {
  readonly capabilities: Capabilities = CAPABILITIES;
  readonly label = "memory";
  readonly #name: string;
  readonly #maxSize: number;
  readonly #clock: Clock;
  readonly #lines = new Lines<B>();
  readonly #due = new DueQueue<Slot<B>>();
  readonly #chosen = new Map<string, Slot<B>>();
  readonly #remembered: RememberedIds;
  readonly #control = new QueueControl();
  readonly #listeners = new Set<() => void>();
  readonly #cancelListeners = new Set<(id: string) => void>();
  /** The queues of the same storage by name, shared by all of them. */
  readonly #queues: Map<string, MemoryEngine<B>>;
  #count = 0;
  #lastNumber = 0;
  #lastNonce = 0;

  constructor(
    name: string,
    maxSize: number,
    clock: Clock,
    queues: Map<string, MemoryEngine<B>> = new Map(),
  ) {
    this.#name = name;
    this.#maxSize = maxSize;
    this.#clock = clock;
    this.#queues = queues.set(name, this);
    this.#remembered = new RememberedIds(clock);
  }

  send(entries: readonly Entry<B>[]): boolean[] {
    const isFresh = freshnessOf(entries, (id, dedupMs) => {
      return this.#chosen.has(id) || dedupMs !== undefined && this.#remembered.has(id);
    });
    const fresh = entries.filter((_, i) => isFresh[i]);
    if (this.#count + fresh.length > this.#maxSize) {
      throw fullError(this.#name, this.#count, this.#maxSize, fresh.length);
    }
    const now = this.#clock.now();
    for (const entry of fresh) this.#store(entry, now);
    this.#wake();
    return isFresh;
  }

  receive(max: number, visibilityMs: number): Received<B> {
    const now = this.#clock.monotonic();
    this.#showDue(now);
    const allowance = this.#control.allowance(max, now);
    if (allowance.max === 0) return { deliveries: [], nextDueMs: allowance.nextMs };
    const deliveries: MemoryDelivery<B>[] = [];
    while (deliveries.length < allowance.max) {
      const slot = this.#lines.take();
      if (slot === undefined) break;
      slot.deliveryCount++;
      slot.holder = new MemoryDelivery(slot, ++this.#lastNonce);
      this.#hide(slot, now + visibilityMs);
      deliveries.push(slot.holder);
    }
    this.#control.delivered(deliveries.length, now);
    return { deliveries, nextDueMs: this.#due.firstAt - now };
  }

  acknowledge(deliveries: readonly Delivery<B>[]): boolean[] {
    return this.#each(deliveries, (slot) => this.#remove(slot));
  }

  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): boolean[] {
    return this.#each(deliveries, (slot, now) => {
      this.#due.move(slot, Math.max(slot.dueAt, now + visibilityMs));
    });
  }

  nack(deliveries: readonly Delivery<B>[], delayMs: number, countsAttempt: boolean): boolean[] {
    const results = this.#each(deliveries, (slot, now) => {
      slot.holder = undefined;
      if (!countsAttempt) slot.deliveryCount--;
      this.#due.move(slot, now + delayMs);
    });
    this.#wake();
    return results;
  }

  release(deliveries: readonly Delivery<B>[]): boolean[] {
    const results = this.#each(deliveries, (slot) => {
      if (slot.releases++ < FREE_RELEASES) slot.deliveryCount--;
      this.#show(slot);
    });
    this.#wake();
    return results;
  }

  deadLetter(delivery: Delivery<B>, letter: Entry<B>): boolean {
    const [moved = false] = this.#each([delivery], (slot) => {
      this.#remove(slot);
      this.deadLetters().send([letter]);
    });
    return moved;
  }

  checkpoint(delivery: Delivery<B>, checkpoint: B): boolean {
    const [saved = false] = this.#each([delivery], (slot) => {
      slot.checkpoint = checkpoint;
      slot.releases = 0;
    });
    return saved;
  }

  peek(max: number, skip = 0): Delivery<B>[] {
    this.#showDue(this.#clock.monotonic());
    const all = [...this.#lines.values(), ...this.#due.values()];
    const oldest = all.sort((a, b) => a.number - b.number).slice(skip, skip + max);
    return oldest.map((slot) => new MemoryDelivery(slot, 0, slot.state));
  }

  count(): number {
    return this.#count;
  }

  stats(): EngineStats {
    const now = this.#clock.monotonic();
    this.#showDue(now);
    const counts = Slot.count(this.#lines.count(), this.#due.values(), this.#clock.now());
    return { ...counts, ...this.#control.stats(now) };
  }

  purge(): number {
    const count = this.#count;
    for (const slot of this.#due.clear()) slot.holder = undefined;
    this.#lines.clear();
    this.#chosen.clear();
    this.#remembered.clear();
    this.#count = 0;
    return count;
  }

  find(id: string): Delivery<B> | undefined {
    const slot = this.#find(id);
    return slot && new MemoryDelivery(slot, 0, slot.state);
  }

  cancel(id: string): boolean {
    const slot = this.#find(id);
    if (slot === undefined) return false;
    const { holder } = slot;
    this.#remove(slot);
    if (holder !== undefined) this.#cancelListeners.forEach((listener) => listener(id));
    return true;
  }

  deliverNow(id: string): boolean {
    const slot = this.#find(id);
    if (slot === undefined || slot.state !== "delayed") return false;
    this.#show(slot);
    this.#wake();
    return true;
  }

  onCancel(listener: (id: string) => void): () => void {
    this.#cancelListeners.add(listener);
    return () => void this.#cancelListeners.delete(listener);
  }

  pause(forMs: number): void {
    this.#control.pause(forMs, this.#clock.monotonic());
    this.#wake();
  }

  rateLimit(limit: RateLimit | undefined): void {
    this.#control.limit(limit);
    this.#wake();
  }

  onWake(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  deadLetters(): MemoryEngine<B> {
    return this.queue(`${this.#name}.dead`);
  }

  queue(name: string): MemoryEngine<B> {
    return this.#queues.get(name) ?? new MemoryEngine(name, Infinity, this.#clock, this.#queues);
  }

  queues(): string[] {
    return [...this.#queues.keys()].filter((name) => !name.endsWith(".dead"));
  }

  drop(): void {
    this.purge();
    this.#queues.delete(this.#name);
  }

  close(): void {}

  #store(entry: Entry<B>, now: number): void {
    const { id, dedup, dedupMs, delayMs, key } = entry;
    const number = ++this.#lastNumber;
    this.#count++;
    if (!dedup && delayMs === 0 && key === undefined) return this.#lines.append(entry, number, now);
    const slot = new Slot(number, now, entry);
    if (dedup) this.#chosen.set(id, slot);
    if (dedupMs !== undefined) this.#remembered.add(id, dedupMs);
    if (delayMs > 0) {
      this.#hide(slot, this.#clock.monotonic() + delayMs);
    } else this.#lines.appendSlot(slot);
  }

  #hide(slot: Slot<B>, dueAt: number): void {
    slot.position = "hidden";
    this.#due.add(slot, dueAt);
  }

  /** Returns a hidden message to its place among the ready ones. */
  #show(slot: Slot<B>): void {
    slot.holder = undefined;
    this.#due.remove(slot);
    this.#lines.putBack(slot);
  }

  /** Removes a message for good, in any state. */
  #remove(slot: Slot<B>): void {
    const { id, dedup } = slot.entry;
    slot.holder = undefined;
    if (slot.position === "hidden") this.#due.remove(slot);
    this.#count--;
    if (dedup) this.#chosen.delete(id);
    if (this.#lines.leave(slot)) this.#wake();
  }

  /** Makes messages visible whose delay or lease is over. */
  #showDue(now: number): void {
    while (this.#due.firstAt <= now) {
      // Messages of a key that are due together join its line in the order in which they were sent.
      for (const slot of this.#due.first().toSorted((a, b) => a.number - b.number)) {
        if (slot.holder !== undefined) slot.leaseExpiries++;
        this.#show(slot);
      }
    }
  }

  #find(id: string): Slot<B> | undefined {
    this.#showDue(this.#clock.monotonic());
    return this.#chosen.get(id) ?? Slot.find([...this.#lines.find(id), ...this.#due.values()], id);
  }

  /** Calls `settle` for each delivery whose lease has not expired. Returns for each whether it had not. */
  #each(all: readonly Delivery<B>[], settle: (slot: Slot<B>, now: number) => void): boolean[] {
    const now = this.#clock.monotonic();
    return all.map((delivery) => {
      const { slot } = delivery as MemoryDelivery<B>;
      if (slot.holder !== delivery || slot.dueAt <= now) return false;
      settle(slot, now);
      return true;
    });
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}
