import { checkCount } from "../_checks.ts";
import { Fifo, Heap } from "../_heap.ts";
import { type Clock, systemClock } from "../clock.ts";
import { type Codec, identityCodec } from "./codec.ts";
import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type Received,
} from "./engine.ts";
import { EngineMailbox } from "./engine_mailbox.ts";
import { fullError } from "./errors.ts";
import { type Capabilities, FULL_CAPABILITIES, type MailboxOptions } from "./mailbox.ts";

/** A stored message. It is visible and in `#ready`, or hidden and in `#due`. */
class Slot<B> {
  place = -1;
  /** When it becomes visible: the end of its delay or of its lease. */
  dueAt = 0;
  deliveryCount = 0;
  releases = 0;
  checkpoint: B | undefined;
  /** The delivery that can settle it, while it is in flight. */
  holder: MemoryDelivery<B> | undefined;
  readonly number: number;
  readonly enqueuedAt: number;
  readonly entry: Entry<B>;

  constructor(number: number, enqueuedAt: number, entry: Entry<B>) {
    this.number = number;
    this.enqueuedAt = enqueuedAt;
    this.entry = entry;
    this.checkpoint = entry.checkpoint;
  }
}

class MemoryDelivery<B> implements Delivery<B> {
  readonly slot: Slot<B>;
  readonly deliveryCount: number;
  readonly #nonce: number;

  constructor(slot: Slot<B>, nonce: number) {
    this.slot = slot;
    this.deliveryCount = slot.deliveryCount;
    this.#nonce = nonce;
  }

  get id(): string {
    return this.slot.entry.id;
  }

  get body(): B {
    return this.slot.entry.body;
  }

  get receiptHandle(): string {
    return `${this.id}#${this.#nonce}`;
  }

  get enqueuedAt(): number {
    return this.slot.enqueuedAt;
  }

  get meta(): B | undefined {
    return this.slot.entry.meta;
  }

  get checkpoint(): B | undefined {
    return this.slot.checkpoint;
  }
}

/**
 * Stores messages in the memory of this process.
 *
 * ```text
 * send ─▶ visible ── receive ──▶ leased ── acknowledge, deadLetter ──▶ gone
 *   └─ delay ─▲                     │
 *             └─ release, nack, or the lease expires
 * ```
 *
 * No timer runs: `receive` moves the messages whose due time has passed back to `ready`, each to its old
 * place.
 */
export class MemoryEngine<B> implements Engine<B> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "memory";
  readonly #name: string;
  readonly #maxSize: number;
  readonly #clock: Clock;
  readonly #ready = new Fifo<Slot<B>>();
  readonly #due = new Heap<Slot<B>>((a, b) => a.dueAt < b.dueAt);
  readonly #chosenIds = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #lastNumber = 0;
  #lastNonce = 0;
  #dead: MemoryEngine<B> | undefined;

  constructor(name: string, maxSize: number, clock: Clock) {
    this.#name = name;
    this.#maxSize = maxSize;
    this.#clock = clock;
  }

  send(entries: readonly Entry<B>[]): boolean[] {
    const isFresh = freshnessOf(entries, (id) => this.#chosenIds.has(id));
    const fresh = entries.filter((_, i) => isFresh[i]);
    const count = this.count();
    if (count + fresh.length > this.#maxSize) {
      throw fullError(this.#name, count, this.#maxSize, fresh.length);
    }
    for (const entry of fresh) this.#store(entry);
    this.#wake();
    return isFresh;
  }

  receive(max: number, visibilityMs: number): Received<B> {
    const now = this.#clock.monotonic();
    this.#showDue(now);
    const deliveries: MemoryDelivery<B>[] = [];
    while (deliveries.length < max) {
      const slot = this.#ready.take();
      if (slot === undefined) break;
      slot.deliveryCount++;
      slot.dueAt = now + visibilityMs;
      slot.holder = new MemoryDelivery(slot, ++this.#lastNonce);
      this.#due.push(slot);
      deliveries.push(slot.holder);
    }
    const nextDueAt = this.#due.peek()?.dueAt ?? Infinity;
    return { deliveries, nextDueMs: nextDueAt - now };
  }

  acknowledge(deliveries: readonly Delivery<B>[]): boolean[] {
    return this.#each(deliveries, (slot) => this.#forget(slot));
  }

  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): boolean[] {
    return this.#each(deliveries, (slot, now) => {
      slot.dueAt = Math.max(slot.dueAt, now + visibilityMs);
      this.#due.moved(slot);
    });
  }

  nack(deliveries: readonly Delivery<B>[], delayMs: number, countsAttempt: boolean): boolean[] {
    const results = this.#each(deliveries, (slot, now) => {
      slot.holder = undefined;
      if (!countsAttempt) slot.deliveryCount--;
      slot.dueAt = now + delayMs;
      this.#due.moved(slot);
    });
    this.#wake();
    return results;
  }

  release(deliveries: readonly Delivery<B>[]): boolean[] {
    const results = this.#each(deliveries, (slot) => {
      slot.holder = undefined;
      if (slot.releases++ < FREE_RELEASES) slot.deliveryCount--;
      this.#due.remove(slot);
      this.#ready.putBack(slot);
    });
    this.#wake();
    return results;
  }

  deadLetter(delivery: Delivery<B>, letter: Entry<B>): boolean {
    const [moved = false] = this.#each([delivery], (slot) => {
      this.#forget(slot);
      this.deadLetters().send([letter]);
    });
    return moved;
  }

  checkpoint(delivery: Delivery<B>, checkpoint: B): boolean {
    const [saved = false] = this.#each([delivery], (slot) => {
      slot.checkpoint = checkpoint;
    });
    return saved;
  }

  peek(max: number): Delivery<B>[] {
    const slots = [...this.#ready.values(), ...this.#due.values()];
    slots.sort((a, b) => a.number - b.number);
    return slots.slice(0, max).map((slot) => new MemoryDelivery(slot, 0));
  }

  count(): number {
    return this.#ready.size + this.#due.size;
  }

  purge(): number {
    const count = this.count();
    for (const slot of this.#due.clear()) slot.holder = undefined;
    this.#ready.clear();
    this.#chosenIds.clear();
    return count;
  }

  onWake(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  deadLetters(): MemoryEngine<B> {
    return this.#dead ??= new MemoryEngine(`${this.#name}.dead`, Infinity, this.#clock);
  }

  close(): void {}

  #store(entry: Entry<B>): void {
    const slot = new Slot(++this.#lastNumber, this.#clock.now(), entry);
    if (entry.dedup) this.#chosenIds.add(entry.id);
    if (entry.delayMs === 0) return this.#ready.append(slot);
    slot.dueAt = this.#clock.monotonic() + entry.delayMs;
    this.#due.push(slot);
  }

  #forget(slot: Slot<B>): void {
    slot.holder = undefined;
    this.#due.remove(slot);
    if (slot.entry.dedup) this.#chosenIds.delete(slot.entry.id);
  }

  /** Makes messages visible whose delay or lease is over. */
  #showDue(now: number): void {
    for (let slot = this.#due.peek(); slot && slot.dueAt <= now; slot = this.#due.peek()) {
      this.#due.remove(slot);
      slot.holder = undefined;
      this.#ready.putBack(slot);
    }
  }

  /** Calls `settle` for each delivery whose lease has not expired. Returns for each whether it had not. */
  #each(
    deliveries: readonly Delivery<B>[],
    settle: (slot: Slot<B>, now: number) => void,
  ): boolean[] {
    const now = this.#clock.monotonic();
    return deliveries.map((delivery) => {
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

/** Options of {@linkcode InMemoryMailbox}. */
export interface InMemoryMailboxOptions extends MailboxOptions {
  /** The most messages that it stores; a `send` above it throws. @default {Infinity} */
  readonly maxSize?: number;
}

/**
 * Keeps messages in the memory of this process, and implements the whole contract. Bodies are not copied.
 * The messages are lost when the process ends.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 *
 * const orders = new InMemoryMailbox<{ item: string }>("orders");
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive();
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class InMemoryMailbox<T, R = unknown> extends EngineMailbox<T, R, unknown> {
  /**
   * Creates an empty mailbox. Two mailboxes with the same name share nothing.
   *
   * @throws {TypeError | RangeError} when the name or an option is invalid.
   */
  constructor(name = "memory", options: InMemoryMailboxOptions = {}) {
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const engine = new MemoryEngine<unknown>(name, maxSize, options.clock ?? systemClock);
    super(name, engine, identityCodec as Codec<unknown>, options);
  }
}
