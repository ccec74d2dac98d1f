import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { Fifo, Heap } from "../../src/_heap.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { ManualClock } from "./_manual_clock.ts";
import { seed } from "../_seed.ts";

class Item {
  place = -1;
  key: number;
  readonly number: number;

  constructor(key: number, number: number = key) {
    this.key = key;
    this.number = number;
  }
}

const step = fc.record({
  what: fc.constantFrom("send", "send", "pop", "remove", "move", "clear"),
  key: fc.integer({ min: 0, max: 20 }),
  pick: fc.nat({ max: 30 }),
});

describe(`Heap (seed ${seed})`, () => {
  it("returns the least item first after any pushes, moves and removals", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100, size: "max" }), (steps) => {
        const heap = new Heap<Item>((a, b) => a.key < b.key);
        const model: Item[] = [];
        for (const { what, key, pick } of steps) {
          const item = model[pick % Math.max(1, model.length)];
          if (what === "send") {
            const fresh = new Item(key);
            heap.push(fresh);
            model.push(fresh);
          } else if (what === "clear" && key === 0) {
            assertEquals(heap.clear().length, model.length);
            for (const gone of model.splice(0)) assertEquals(gone.place, -1);
          } else if (what === "pop") {
            const top = heap.pop();
            assertEquals(top?.key, least(model)?.key);
            if (top !== undefined) model.splice(model.indexOf(top), 1);
          } else if (what === "remove" && item !== undefined) {
            heap.remove(item);
            assertEquals(item.place, -1);
            model.splice(model.indexOf(item), 1);
          } else if (what === "move" && item !== undefined) {
            item.key = key;
            heap.moved(item);
          }
          assertEquals([heap.size, heap.peek()?.key], [model.length, least(model)?.key]);
          for (const [place, it] of heap.values().entries()) {
            assert(it.place === place, "the place of an item is its index");
          }
        }
        const rest = Array.from({ length: heap.size }, () => heap.pop()!.key);
        assertEquals(rest, model.map(({ key }) => key).sort((a, b) => a - b));
      }),
      { numRuns: 500, seed },
    );
  });
});

describe(`Fifo (seed ${seed})`, () => {
  it("returns the lowest number first, also of items that came back", () => {
    const steps = fc.array(fc.constantFrom("append", "append", "take", "take", "comeBack"), {
      maxLength: 150,
      size: "max",
    });
    fc.assert(
      fc.property(steps, fc.infiniteStream(fc.nat()), (steps, picks) => {
        const fifo = new Fifo<Item>();
        const model: Item[] = [];
        const taken: Item[] = [];
        let last = 0;
        for (const what of steps) {
          if (what === "append") {
            const fresh = new Item(++last);
            fifo.append(fresh);
            model.push(fresh);
          } else if (what === "take") {
            const next = fifo.take();
            assertEquals(next?.number, least(model)?.number);
            if (next === undefined) continue;
            model.splice(model.indexOf(next), 1);
            taken.push(next);
          } else if (taken.length > 0) {
            const [back] = taken.splice(picks.next().value! % taken.length, 1);
            fifo.putBack(back!);
            model.push(back!);
          }
          assertEquals(fifo.size, model.length);
          assert(fifo.values().every((it) => model.includes(it)), "no other item is queued");
        }
        fifo.clear();
        assertEquals([fifo.size, fifo.take(), fifo.values()], [0, undefined, []]);
      }),
      { numRuns: 500, seed },
    );
  });

  it("does not grow when a million items pass through a short queue", () => {
    const fifo = new Fifo<Item>();
    let number = 0;
    const longest = longestArray((it) => it instanceof Item, () => {
      for (let i = 0; i < 10; i++) fifo.append(new Item(++number));
      while (number < 1_000_000) {
        fifo.append(new Item(++number));
        assert(fifo.take()!.number === number - 10);
      }
    });
    assert(longest <= 2_100, `an array grew to ${longest}`);
    assertEquals(fifo.size, 10);
  });
});

describe("MemoryEngine", () => {
  it("does not grow when a million messages pass through a small queue", () => {
    const clock = new ManualClock();
    const engine = new MemoryEngine<number>("orders", 200, clock);
    const isSlot = (it: unknown) => typeof it === "object" && it !== null && "dueAt" in it;
    let passed = 0;
    const longest = longestArray(isSlot, () => {
      for (let round = 0; passed < 1_000_000; round++) {
        const ids = Array.from({ length: 100 }, (_, i) => `${i}`);
        engine.send(ids.map((id) => ({ id, body: round, delayMs: round % 3, dedup: true })));
        clock.elapsed += 5;
        const { deliveries } = engine.receive(100, 1_000);
        assert(deliveries.length === 100, "every id can be used again");
        engine.release(deliveries.slice(0, 10));
        const again = engine.receive(10, 1_000).deliveries;
        const settled = [...engine.acknowledge(deliveries.slice(10)), ...engine.acknowledge(again)];
        assert(settled.every(Boolean));
        passed += settled.length;
      }
    });
    assert(longest <= 2_100, `an array grew to ${longest}`);
    assertEquals(engine.count(), 0);
    assertEquals(engine.receive(1, 0).nextDueMs, Infinity, "no message is left");
  });
});

function least(items: readonly Item[]): Item | undefined {
  let found: Item | undefined;
  for (const item of items) if (found === undefined || item.key < found.key) found = item;
  return found;
}

/** Returns the length of the longest array that such items are pushed to during `act`. */
function longestArray(isItem: (it: unknown) => boolean, act: () => void): number {
  const { push } = Array.prototype;
  let longest = 0;
  Array.prototype.push = function (...items: unknown[]): number {
    const length = push.apply(this, items);
    if (length > longest && isItem(items[0])) longest = length;
    return length;
  };
  try {
    act();
  } finally {
    Array.prototype.push = push;
  }
  return longest;
}
