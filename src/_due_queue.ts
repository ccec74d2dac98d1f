import { Bag, type BagItem } from "./_bag.ts";
import { Heap, type HeapItem } from "./_heap.ts";

/** An item of a due queue. It knows its group, so that `remove` does not have to search. */
export interface DueItem extends BagItem {
  /** Undefined while the item is in no queue. */
  due: DueGroup<this> | undefined;
}

/** The items that are due at the same time. */
export class DueGroup<T extends BagItem> extends Bag<T> implements HeapItem {
  /** The index in the heap of groups. */
  place = -1;
  readonly at: number;

  constructor(at: number) {
    super();
    this.at = at;
  }
}

/**
 * Items ordered by due time. The items of one call are due at the same time and share a place in the heap, so adding
 * and removing most items takes constant time.
 */
export class DueQueue<T extends DueItem> {
  readonly #groups = new Heap<DueGroup<T>>((a, b) => a.at < b.at);
  /** The group of the last added item, which is probably that of the next item. */
  #last: DueGroup<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** When the first item is due; `Infinity` without one. */
  get firstAt(): number {
    return this.#groups.peek()?.at ?? Infinity;
  }

  /** Returns the items that are due first, in no particular order. */
  first(): readonly T[] {
    return this.#groups.peek()?.values() ?? [];
  }

  add(item: T, at: number): void {
    if (this.#last === undefined || this.#last.at !== at || this.#last.place < 0) {
      this.#groups.push(this.#last = new DueGroup<T>(at));
    }
    item.due = this.#last;
    this.#last.add(item);
    this.#size++;
  }

  remove(item: T): void {
    const group = item.due!;
    item.due = undefined;
    group.delete(item);
    if (group.size === 0) this.#groups.remove(group);
    this.#size--;
  }

  /** Changes the due time of an item. */
  move(item: T, at: number): void {
    this.remove(item);
    this.add(item, at);
  }

  /** Removes and returns all items. */
  clear(): T[] {
    const items = this.values();
    for (const item of items) this.remove(item);
    return items;
  }

  /** Returns all items, in no particular order. */
  values(): T[] {
    return this.#groups.values().flatMap((group) => group.values());
  }
}
