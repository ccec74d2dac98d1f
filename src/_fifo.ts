/** The array drops its taken items when there are at least this many and they are half of the array. */
const DROP_FROM = 64;

/** A first-in, first-out queue. Unlike `Array.shift`, taking the first item does not move the others. */
export class Fifo<T extends object> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const first = this.#items[this.#head];
    if (first === undefined) return undefined;
    this.#items[this.#head++] = undefined;
    if (this.#head >= DROP_FROM && this.#head * 2 >= this.#items.length) this.#dropFront();
    return first;
  }

  /** Removes one item. Returns false when it is not in the queue. */
  remove(item: T): boolean {
    const place = this.#items.indexOf(item, this.#head);
    if (place < 0) return false;
    this.#items.splice(place, 1);
    return true;
  }

  /** Removes and returns all items. */
  clear(): T[] {
    this.#dropFront();
    return this.#items.splice(0) as T[];
  }

  #dropFront(): void {
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
  }
}
