/** An item of a heap. It stores its own index, so that `remove` does not have to search. */
export interface HeapItem {
  /** The index in the heap, or -1 while the item is in no heap. */
  place: number;
}

/** A binary heap. Any item can be removed or reordered in logarithmic time. */
export class Heap<T extends HeapItem> {
  readonly #items: T[] = [];
  readonly #before: (a: T, b: T) => boolean;

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#put(item, this.#items.length);
    this.#rise(item);
  }

  pop(): T | undefined {
    const top = this.#items[0];
    if (top !== undefined) this.remove(top);
    return top;
  }

  remove(item: T): void {
    const { place } = item;
    const last = this.#items.pop()!;
    item.place = -1;
    if (last === item) return;
    this.#put(last, place);
    this.moved(last);
  }

  /** Restores the order after the key of `item` has changed. */
  moved(item: T): void {
    this.#rise(item);
    this.#sink(item);
  }

  /** Removes and returns all items. */
  clear(): T[] {
    const items = this.#items.splice(0);
    for (const item of items) item.place = -1;
    return items;
  }

  values(): readonly T[] {
    return this.#items;
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }

  #rise(item: T): void {
    while (item.place > 0) {
      const place = item.place;
      const parentPlace = (place - 1) >> 1;
      const parent = this.#items[parentPlace]!;
      if (!this.#before(item, parent)) return;
      this.#put(parent, place);
      this.#put(item, parentPlace);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const place = item.place;
      let childPlace = 2 * place + 1;
      let child = this.#items[childPlace];
      if (child === undefined) return;
      const sibling = this.#items[childPlace + 1];
      if (sibling !== undefined && this.#before(sibling, child)) {
        child = sibling;
        childPlace++;
      }
      if (!this.#before(child, item)) return;
      this.#put(child, place);
      this.#put(item, childPlace);
    }
  }
}
