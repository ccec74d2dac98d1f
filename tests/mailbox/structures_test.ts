import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { Heap } from "../../src/_heap.ts";
import { Line, Slot } from "../../src/mailbox/_memory_line.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { ManualClock } from "./_manual_clock.ts";
import { seed } from "../_seed.ts";

class Item {
  place = -1;
  key: number;

  constructor(key: number) {
    this.key = key;
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

/** A message that was sent when as many had been as its number says. */
const entryOf = (number: number) => ({ id: `${number}`, body: 0, delayMs: 0, dedup: false });

/** Adds a new message to a line, as an entry or as a slot. */
function append(line: Line<number>, number: number, asSlot = false): void {
  const entry = entryOf(number);
  line.append(asSlot ? new Slot(number, number, entry) : entry, number, number);
}

describe(`Line (seed ${seed})`, () => {
  it("returns the lowest number first, also of messages that came back", () => {
    const steps = fc.array(
      fc.constantFrom("entry", "entry", "slot", "take", "take", "comeBack", "cancel"),
      { maxLength: 150, size: "max" },
    );
    fc.assert(
      fc.property(steps, fc.infiniteStream(fc.nat()), (steps, picks) => {
        const line = new Line<number>();
        const model: number[] = [];
        const taken: Slot<number>[] = [];
        let last = 0;
        for (const what of steps) {
          if (what === "entry" || what === "slot") {
            append(line, ++last, what === "slot");
            model.push(last);
          } else if (what === "take") {
            const next = line.take();
            assertEquals(next?.number, model.toSorted((a, b) => a - b)[0]);
            if (next === undefined) continue;
            assertEquals([next.entry, next.enqueuedAt], [entryOf(next.number), next.number]);
            model.splice(model.indexOf(next.number), 1);
            taken.push(next);
          } else if (what === "comeBack" && taken.length > 0) {
            const [back] = taken.splice(picks.next().value! % taken.length, 1);
            line.putBack(back!);
            model.push(back!.number);
          } else if (what === "cancel" && model.length > 0) {
            const [cancelled] = model.splice(picks.next().value! % model.length, 1);
            const [slot, ...more] = line.find(`${cancelled}`);
            assertEquals([slot!.number, more.length], [cancelled, 0]);
            slot!.gone = true;
            assertEquals(line.find(`${cancelled}`), []);
          }
          const waiting = { count: 0, oldestAt: Infinity };
          line.count(waiting);
          assertEquals(waiting, { count: model.length, oldestAt: Math.min(...model) });
          const numbers = line.values().map(({ number }) => number);
          assertEquals(numbers.sort((a, b) => a - b), model.toSorted((a, b) => a - b));
        }
        line.clear();
        assertEquals([line.take(), line.values()], [undefined, []]);
      }),
      { numRuns: 500, seed },
    );
  });

  it("does not grow when a million messages pass through a short line", () => {
    const line = new Line<number>();
    let number = 0;
    const isEntry = (it: unknown) => typeof it === "object" && it !== null && "dedup" in it;
    const longest = longestArray(isEntry, () => {
      for (let i = 0; i < 10; i++) append(line, ++number);
      while (number < 1_000_000) {
        append(line, ++number);
        assert(line.take()!.number === number - 10);
      }
    });
    assert(longest <= 2_100, `an array grew to ${longest}`);
    assertEquals(line.values().length, 10);
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
