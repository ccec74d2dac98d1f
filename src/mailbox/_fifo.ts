import { Heap, type HeapItem } from "../_heap.ts";

/** What stands in line: its number is its place for good. */
export interface Numbered extends HeapItem {
  readonly number: number;
}

/** The front of the array that was taken is cut off once it is this long, and half of it all. */
const CUT = 1_024;

/**
 * A line in which whoever comes back gets the old place. New ones queue up at constant cost; the few
 * that return stand in a heap beside, and the lower number goes first.
 */
export class Fifo<T extends Numbered> {
  #line: (T | undefined)[] = [];
  #head = 0;
  readonly #returned = new Heap<T>((a, b) => a.number < b.number);

  get size(): number {
    return this.#line.length - this.#head + this.#returned.size;
  }

  /** A new one, with a number above all before. */
  append(item: T): void {
    this.#line.push(item);
  }

  /** One that was in line before. */
  comeBack(item: T): void {
    this.#returned.push(item);
  }

  take(): T | undefined {
    const next = this.#line[this.#head];
    const returned = this.#returned.peek();
    if (returned !== undefined && (next === undefined || returned.number < next.number)) {
      return this.#returned.pop();
    }
    if (next === undefined) return undefined;
    this.#line[this.#head++] = undefined;
    if (this.#head >= CUT && this.#head * 2 >= this.#line.length) {
      this.#line = this.#line.slice(this.#head);
      this.#head = 0;
    }
    return next;
  }

  clear(): void {
    this.#line = [];
    this.#head = 0;
    this.#returned.clear();
  }

  values(): T[] {
    return [...this.#returned.values(), ...this.#line.slice(this.#head) as T[]];
  }
}
