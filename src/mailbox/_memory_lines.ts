import { Heap } from "../_heap.ts";
import type { Clock } from "../clock.ts";
import type { Entry } from "./engine.ts";
import { Line, type Slot, type Waiting } from "./_memory_line.ts";

/**
 * The messages that wait: ready ones by priority and number, and behind the first message of each key the
 * blocked ones. The first stays the first while it is hidden, until it leaves.
 */
export class Lines<B> {
  /** Ready messages by priority. */
  readonly #ready: Line<B>[] = [new Line<B>()];
  /** For each key that has messages, those behind the first. */
  readonly #blocked = new Map<string, Line<B>>();

  /** Adds a new message without a key. */
  append(entry: Entry<B>, number: number, enqueuedAt: number): void {
    this.#readyLine(entry).append(entry, number, enqueuedAt);
  }

  /** Adds a new message that has a key, or that already has a slot. */
  appendSlot(slot: Slot<B>): void {
    const { entry, number, enqueuedAt } = slot;
    if (this.#joinKey(slot)) this.#readyLine(entry).append(slot, number, enqueuedAt);
  }

  /** Adds a message that was hidden. */
  putBack(slot: Slot<B>): void {
    slot.position = "ready";
    if (slot.joined || this.#joinKey(slot)) this.#readyLine(slot.entry).putBack(slot);
  }

  /** Takes the next message. */
  take(): Slot<B> | undefined {
    for (let priority = this.#ready.length - 1; priority >= 0; priority--) {
      const slot = this.#ready[priority]!.take();
      if (slot !== undefined) return slot;
    }
    return undefined;
  }

  /** Removes a message for good. Returns true when the next one of its key becomes ready. */
  leave(slot: Slot<B>): boolean {
    const { key } = slot.entry;
    slot.gone = true;
    if (key === undefined || !slot.joined || slot.position === "blocked") return false;
    const next = this.#blocked.get(key)!.take();
    if (next === undefined) this.#blocked.delete(key);
    else this.putBack(next);
    return next !== undefined;
  }

  /** Returns the messages with this id. */
  find(id: string): Slot<B>[] {
    return this.#all().flatMap((line) => line.find(id));
  }

  /** Returns all messages without taking them. */
  values(): Slot<B>[] {
    return this.#all().flatMap((line) => line.values());
  }

  /** Counts the messages. */
  count(): Waiting {
    const waiting = { count: 0, oldestAt: Infinity };
    for (const line of this.#all()) line.count(waiting);
    return waiting;
  }

  clear(): void {
    for (const line of this.#ready) line.clear();
    this.#blocked.clear();
  }

  #all(): Line<B>[] {
    return [...this.#ready, ...this.#blocked.values()];
  }

  #readyLine({ priority = 0 }: Entry<B>): Line<B> {
    while (this.#ready.length <= priority) this.#ready.push(new Line());
    return this.#ready[priority]!;
  }

  /** Puts a message at the end of the line of its key. Returns false when another one is the first. */
  #joinKey(slot: Slot<B>): boolean {
    const { key } = slot.entry;
    if (key === undefined) return true;
    slot.joined = true;
    const line = this.#blocked.get(key);
    if (line === undefined) {
      this.#blocked.set(key, new Line());
      return true;
    }
    slot.position = "blocked";
    line.append(slot, slot.number, slot.enqueuedAt);
    return false;
  }
}

/** Ids that are remembered after their messages are gone. */
export class RememberedIds {
  readonly #clock: Clock;
  readonly #ids = new Map<string, { place: number; readonly id: string; readonly until: number }>();
  readonly #byEnd = new Heap<{ place: number; readonly id: string; readonly until: number }>(
    (a, b) => a.until < b.until,
  );

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(id: string, forMs: number): void {
    const remembered = { place: -1, id, until: this.#clock.monotonic() + forMs };
    this.#ids.set(id, remembered);
    this.#byEnd.push(remembered);
  }

  has(id: string): boolean {
    this.#forget();
    return this.#ids.has(id);
  }

  clear(): void {
    this.#ids.clear();
    this.#byEnd.clear();
  }

  #forget(): void {
    const now = this.#clock.monotonic();
    for (let it = this.#byEnd.peek(); it && it.until <= now; it = this.#byEnd.peek()) {
      this.#byEnd.pop();
      if (this.#ids.get(it.id) === it) this.#ids.delete(it.id);
    }
  }
}
