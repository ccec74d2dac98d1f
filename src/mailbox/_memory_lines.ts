import { Fifo, Heap } from "../_heap.ts";
import type { Clock } from "../clock.ts";
import type { Delivery, EngineStats, Entry, MessageState } from "./engine.ts";

/** A stored message. */
export class Slot<B> {
  place = -1;
  /** `blocked` behind the first message of its key, or `hidden` by a delay or a lease. */
  position: "ready" | "blocked" | "hidden" = "ready";
  /** When it becomes visible: the end of its delay or of its lease. */
  dueAt = 0;
  deliveryCount = 0;
  releases = 0;
  leaseExpiries = 0;
  checkpoint: B | undefined;
  /** The delivery that can settle it, while it is in flight. */
  holder: MemoryDelivery<B> | undefined;
  /** True from the moment in which it takes its place in the line of its key. */
  joined = false;
  /** True when it was cancelled while it was ready or blocked. The lines skip it. */
  gone = false;
  readonly number: number;
  readonly enqueuedAt: number;
  readonly entry: Entry<B>;

  constructor(number: number, enqueuedAt: number, entry: Entry<B>) {
    this.number = number;
    this.enqueuedAt = enqueuedAt;
    this.entry = entry;
    this.checkpoint = entry.checkpoint;
  }

  /** Where the message is. */
  get state(): MessageState {
    if (this.holder !== undefined) return "inFlight";
    return this.position === "hidden" ? "delayed" : "waiting";
  }

  /** Counts messages by state. `hidden` ones are delayed or in flight. */
  static count<B>(
    waiting: readonly Slot<B>[],
    hidden: readonly Slot<B>[],
    now: number,
  ): EngineStats {
    let inFlight = 0;
    for (const { holder } of hidden) if (holder !== undefined) inFlight++;
    const oldest = waiting.reduce((least, { enqueuedAt }) => Math.min(least, enqueuedAt), Infinity);
    return {
      waiting: waiting.length,
      delayed: hidden.length - inFlight,
      inFlight,
      ...(waiting.length > 0 && { oldestWaitingMs: Math.max(0, now - oldest) }),
    };
  }

  /** Returns the message with this id; of several, the oldest that is not in flight, if there is one. */
  static find<B>(slots: readonly Slot<B>[], id: string): Slot<B> | undefined {
    const found = slots.filter(({ entry }) => entry.id === id);
    const isHeld = ({ holder }: Slot<B>) => Number(holder !== undefined);
    return found.sort((a, b) => isHeld(a) - isHeld(b) || a.number - b.number)[0];
  }
}

export class MemoryDelivery<B> implements Delivery<B> {
  readonly slot: Slot<B>;
  readonly deliveryCount: number;
  readonly leaseExpiries: number;
  readonly state: MessageState | undefined;
  readonly #nonce: number;

  constructor(slot: Slot<B>, nonce: number, state?: MessageState) {
    this.slot = slot;
    this.deliveryCount = slot.deliveryCount;
    this.leaseExpiries = slot.leaseExpiries;
    this.state = state;
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
 * The messages that wait: ready ones by priority and number, and behind the first message of each key the
 * blocked ones. The first stays the first while it is hidden, until it leaves.
 */
export class Lines<B> {
  /** Ready messages by priority. */
  readonly #ready: Fifo<Slot<B>>[] = [new Fifo<Slot<B>>()];
  /** For each key that has messages, those behind the first. */
  readonly #blocked = new Map<string, Fifo<Slot<B>>>();

  /** Adds a new message. */
  append(slot: Slot<B>): void {
    if (this.#joinKey(slot)) this.#readyLine(slot).append(slot);
  }

  /** Adds a message that was hidden. */
  putBack(slot: Slot<B>): void {
    slot.position = "ready";
    if (slot.joined || this.#joinKey(slot)) this.#readyLine(slot).putBack(slot);
  }

  /** Takes the next message. */
  take(): Slot<B> | undefined {
    for (let priority = this.#ready.length - 1; priority >= 0; priority--) {
      const slot = takeExisting(this.#ready[priority]!);
      if (slot !== undefined) return slot;
    }
    return undefined;
  }

  /** Removes a message for good. Returns true when the next one of its key becomes ready. */
  leave(slot: Slot<B>): boolean {
    const { key } = slot.entry;
    slot.gone = true;
    if (key === undefined || !slot.joined || slot.position === "blocked") return false;
    const next = takeExisting(this.#blocked.get(key)!);
    if (next === undefined) this.#blocked.delete(key);
    else this.putBack(next);
    return next !== undefined;
  }

  values(): Slot<B>[] {
    const lines = [...this.#ready, ...this.#blocked.values()];
    return lines.flatMap((line) => line.values()).filter(({ gone }) => !gone);
  }

  clear(): void {
    for (const line of this.#ready) line.clear();
    this.#blocked.clear();
  }

  #readyLine({ entry: { priority = 0 } }: Slot<B>): Fifo<Slot<B>> {
    while (this.#ready.length <= priority) this.#ready.push(new Fifo());
    return this.#ready[priority]!;
  }

  /** Puts a message at the end of the line of its key. Returns false when another one is the first. */
  #joinKey(slot: Slot<B>): boolean {
    const { key } = slot.entry;
    if (key === undefined) return true;
    slot.joined = true;
    const line = this.#blocked.get(key);
    if (line === undefined) {
      this.#blocked.set(key, new Fifo());
      return true;
    }
    slot.position = "blocked";
    line.append(slot);
    return false;
  }
}

function takeExisting<B>(line: Fifo<Slot<B>>): Slot<B> | undefined {
  let slot = line.take();
  while (slot?.gone) slot = line.take();
  return slot;
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
