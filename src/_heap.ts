/** What a heap keeps in order. It remembers its own place, so that it can leave early. */
export interface HeapItem {
  /** Its place in the heap; -1 while it is in none. */
  place: number;
}

/** A binary heap whose items can move and leave from anywhere in it. */
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

  /** Its order has changed: it finds its new place. */
  moved(item: T): void {
    this.#rise(item);
    this.#sink(item);
  }

  /** Empties the heap and returns what was in it. */
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
