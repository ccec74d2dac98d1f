/** An item of a bag. It stores its own index, so that `delete` does not have to search. */
export interface BagItem {
  /** The index in the bag, or -1 while the item is in no bag. */
  place: number;
}

/** An unordered collection. Adding and deleting an item is much cheaper than with a `Set`. */
export class Bag<T extends BagItem> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.place = this.#items.length;
    this.#items.push(item);
  }

  /** Returns false when the item is in no bag. */
  delete(item: T): boolean {
    const { place } = item;
    if (place < 0) return false;
    const last = this.#items.pop()!;
    if (last !== item) {
      this.#items[place] = last;
      last.place = place;
    }
    item.place = -1;
    return true;
  }

  values(): readonly T[] {
    return this.#items;
  }
}
