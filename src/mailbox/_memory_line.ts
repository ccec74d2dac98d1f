import type { DueGroup, DueItem } from "../_due_queue.ts";
import { Heap, type HeapItem } from "../_heap.ts";
import type { Delivery, EngineStats, Entry, MessageState } from "./engine.ts";

/** A stored message. */
export class Slot<B> implements DueItem, HeapItem {
  place = -1;
  /** `blocked` behind the first message of its key, or `hidden` by a delay or a lease. */
  position: "ready" | "blocked" | "hidden" = "ready";
  /** Set while it is hidden. */
  due: DueGroup<this> | undefined;
  deliveryCount = 0;
  releases = 0;
  leaseExpiries = 0;
  checkpoint: B | undefined;
  /** The delivery that can settle it, while it is in flight. */
  holder: MemoryDelivery<B> | undefined;
  /** True once it has joined the line of its key. */
  joined = false;
  /** True if it was cancelled while it was ready or blocked. The lines skip it. */
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

  /** When it becomes visible: the end of its delay or of its lease. */
  get dueAt(): number {
    return this.due?.at ?? 0;
  }

  /** Where the message is. */
  get state(): MessageState {
    if (this.holder !== undefined) return "inFlight";
    return this.position === "hidden" ? "delayed" : "waiting";
  }

  /** Counts messages by state. `hidden` ones are delayed or in flight. */
  static count<B>(
    { count, oldestAt }: Waiting,
    hidden: readonly Slot<B>[],
    now: number,
  ): EngineStats {
    let inFlight = 0;
    for (const { holder } of hidden) if (holder !== undefined) inFlight++;
    return {
      waiting: count,
      delayed: hidden.length - inFlight,
      inFlight,
      ...(count > 0 && { oldestWaitingMs: Math.max(0, now - oldestAt) }),
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

/** The sizes of the chunks of a line. Each is twice as long as the one before, up to the longest. */
const CHUNK_SIZES = { first: 16, longest: 1_024 } as const;

/** New messages of a line, one after another. The arrays never grow, so they are never copied. */
class Chunk<B> {
  readonly messages: (Entry<B> | Slot<B> | undefined)[];
  /** The number of each message. */
  readonly numbers: number[];
  /** When each message was sent. */
  readonly sentAt: number[];
  /** The index of the next message to take, and that of the next one to append. */
  head = 0;
  end = 0;
  next: Chunk<B> | undefined;
  readonly size: number;

  constructor(size: number) {
    this.size = size;
    this.messages = new Array(size);
    this.numbers = new Array(size);
    this.sentAt = new Array(size);
  }

  append(message: Entry<B> | Slot<B>, number: number, enqueuedAt: number): void {
    const { end } = this;
    this.messages[end] = message;
    this.numbers[end] = number;
    this.sentAt[end] = enqueuedAt;
    this.end++;
  }

  slot(i: number): Slot<B> {
    const message = this.messages[i]!;
    return message instanceof Slot ? message : new Slot(this.numbers[i]!, this.sentAt[i]!, message);
  }
}

/**
 * Messages in the order of their numbers. Appending a new message takes constant time. The few messages that are put
 * back wait in a heap, lowest number first.
 *
 * A new message stays the sent entry until it is needed as a slot. The garbage collector copies new objects and marks
 * old ones, so the size of a message decides its cost in a long line.
 */
export class Line<B> {
  /** Undefined before the first message. Only the last chunk may have no message. */
  #first: Chunk<B> | undefined;
  #last: Chunk<B> | undefined;
  readonly #returned = new Heap<Slot<B>>((a, b) => a.number < b.number);

  /** Adds a new message. Its number is higher than all before. */
  append(message: Entry<B> | Slot<B>, number: number, enqueuedAt: number): void {
    let chunk = this.#last ??= this.#first = new Chunk<B>(CHUNK_SIZES.first);
    if (chunk.end === chunk.size) {
      chunk = this.#last = chunk.next = new Chunk(Math.min(2 * chunk.size, CHUNK_SIZES.longest));
    }
    chunk.append(message, number, enqueuedAt);
  }

  /** Adds a message that was in the line before. */
  putBack(slot: Slot<B>): void {
    this.#returned.push(slot);
  }

  /** Takes the next message that was not cancelled. */
  take(): Slot<B> | undefined {
    let slot = this.#next();
    while (slot?.gone) slot = this.#next();
    return slot;
  }

  /** Returns the messages with this id. `take` returns the same slots later. */
  find(id: string): Slot<B>[] {
    const found = this.#returned.values().filter(({ entry }) => entry.id === id);
    this.#each((chunk, i) => {
      const message = chunk.messages[i]!;
      if ((message instanceof Slot ? message.entry : message).id !== id) return;
      found.push(chunk.messages[i] = chunk.slot(i));
    });
    return found.filter(({ gone }) => !gone);
  }

  /** Returns all messages. For a message that is no slot yet, `take` returns another slot later. */
  values(): Slot<B>[] {
    const slots = [...this.#returned.values()];
    this.#each((chunk, i) => slots.push(chunk.slot(i)));
    return slots.filter(({ gone }) => !gone);
  }

  /** Counts the messages without creating slots. */
  count(waiting: Waiting): void {
    for (const slot of this.#returned.values()) {
      if (!slot.gone) add(waiting, slot.enqueuedAt);
    }
    this.#each(({ messages, sentAt }, i) => {
      const message = messages[i];
      if (!(message instanceof Slot && message.gone)) add(waiting, sentAt[i]!);
    });
  }

  clear(): void {
    this.#first = this.#last = undefined;
    this.#returned.clear();
  }

  #next(): Slot<B> | undefined {
    const chunk = this.#first;
    const returned = this.#returned.peek();
    if (
      chunk === undefined || chunk.head === chunk.end ||
      returned && returned.number < chunk.numbers[chunk.head]!
    ) return this.#returned.pop();
    const slot = chunk.slot(chunk.head);
    chunk.messages[chunk.head++] = undefined;
    if (chunk.head === chunk.end) this.#leave(chunk);
    return slot;
  }

  /** Moves on to the next chunk, or reuses the last one. */
  #leave(chunk: Chunk<B>): void {
    chunk.head = chunk.end = 0;
    if (chunk.next === undefined) return;
    this.#first = chunk.next;
    chunk.next = undefined; // an old chunk would keep the next one from being collected while it is young
  }

  #each(visit: (chunk: Chunk<B>, i: number) => void): void {
    for (let chunk = this.#first; chunk !== undefined; chunk = chunk.next) {
      for (let i = chunk.head; i < chunk.end; i++) visit(chunk, i);
    }
  }
}

/** The number of waiting messages, and when the oldest was sent: `Infinity` without one. */
export interface Waiting {
  count: number;
  oldestAt: number;
}

function add(waiting: Waiting, enqueuedAt: number): void {
  waiting.count++;
  if (enqueuedAt < waiting.oldestAt) waiting.oldestAt = enqueuedAt;
}
