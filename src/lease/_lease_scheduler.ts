import { Heap, type HeapItem } from "../_heap.ts";
import type { Cancel, Clock } from "../clock.ts";

/** What the scheduler calls when its time has come. */
export interface Scheduled extends HeapItem {
  /** When, by the monotonic clock. */
  at: number;
  /** How much earlier it may be called, to be called together with others. */
  readonly slackMs: number;
}

/** Calls many things at their times with a single timer, and those that are due close together at once. */
export class LeaseScheduler<T extends Scheduled> {
  readonly #clock: Clock;
  readonly #onDue: (due: readonly T[]) => void;
  readonly #heap = new Heap<T>((a, b) => a.at < b.at);
  #cancelTimer: Cancel | undefined;
  #timerAt = Infinity;

  constructor(clock: Clock, onDue: (due: readonly T[]) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#heap.size;
  }

  add(item: T, at: number): void {
    item.at = at;
    this.#heap.push(item);
    if (at < this.#timerAt) this.#arm(at);
  }

  /** The timer stays as it is: leases come and go much faster than it. `rest` takes it away. */
  remove(item: T): void {
    if (item.place >= 0) this.#heap.remove(item);
  }

  /** Takes the timer away when there is nothing to wait for. */
  rest(): void {
    if (this.#heap.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Infinity;
  }

  #arm(at: number): void {
    this.#cancelTimer?.();
    this.#timerAt = at;
    this.#cancelTimer = this.#clock.schedule(at - this.#clock.monotonic(), () => this.#fire());
  }

  #fire(): void {
    this.#cancelTimer = undefined;
    this.#timerAt = Infinity;
    const now = this.#clock.monotonic();
    const due: T[] = [];
    for (let item = this.#heap.peek(); item && item.at - item.slackMs <= now;) {
      due.push(this.#heap.pop()!);
      item = this.#heap.peek();
    }
    const next = this.#heap.peek();
    if (next !== undefined) this.#arm(next.at);
    if (due.length > 0) this.#onDue(due);
  }
}
