import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { type DueGroup, type DueItem, DueQueue } from "../../src/_due_queue.ts";
import { Fifo } from "../../src/_fifo.ts";
import { seed } from "../_seed.ts";

class Item implements DueItem {
  place = -1;
  due: DueGroup<this> | undefined;
}

const step = fc.record({
  what: fc.constantFrom("add", "add", "add", "remove", "move", "first", "clear"),
  at: fc.integer({ min: 0, max: 5 }),
  pick: fc.nat({ max: 30 }),
});

describe(`DueQueue (seed ${seed})`, () => {
  it("returns the items that are due first after any additions, moves and removals", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100, size: "max" }), (steps) => {
        const queue = new DueQueue<Item>();
        const model = new Map<Item, number>();
        for (const { what, at, pick } of steps) {
          const item = [...model.keys()][pick % Math.max(1, model.size)];
          if (what === "add") {
            const fresh = new Item();
            queue.add(fresh, at);
            model.set(fresh, at);
          } else if (what === "clear" && at === 0) {
            assertEquals(new Set(queue.clear()), new Set(model.keys()));
            model.clear();
          } else if (what === "remove" && item !== undefined) {
            queue.remove(item);
            model.delete(item);
            assertEquals([item.due, item.place], [undefined, -1]);
          } else if (what === "move" && item !== undefined) {
            queue.move(item, at);
            model.set(item, at);
          } else if (what === "first") {
            for (const first of [...queue.first()]) {
              queue.remove(first);
              model.delete(first);
            }
          }
          const firstAt = Math.min(...model.values());
          const first = [...model].filter(([, at]) => at === firstAt).map(([item]) => item);
          assertEquals([queue.size, queue.firstAt], [model.size, firstAt]);
          assert(queue.first().every((it) => first.includes(it)), "another item is due earlier");
          assertEquals(queue.first().length > 0, first.length > 0);
          assertEquals(new Set(queue.values()), new Set(model.keys()));
          for (const [item, at] of model) assertEquals(item.due?.at, at);
        }
      }),
      { numRuns: 300, seed },
    );
  });
});

describe(`Fifo (seed ${seed})`, () => {
  it("works like an array", () => {
    const what = fc.constantFrom("push", "push", "push", "shift", "shift", "remove");
    const steps = fc.array(fc.record({ what, pick: fc.nat() }), { maxLength: 600, size: "max" });
    fc.assert(
      fc.property(steps, (steps) => {
        const fifo = new Fifo<object>();
        const model: object[] = [];
        for (const { what, pick } of steps) {
          if (what === "push") {
            const item = {};
            fifo.push(item);
            model.push(item);
          } else if (what === "shift") assert(fifo.shift() === model.shift());
          else if (model.length > 0) {
            const [item] = model.splice(pick % model.length, 1);
            assertEquals([fifo.remove(item!), fifo.remove(item!)], [true, false]);
          }
          assert(fifo.peek() === model[0]);
          assertEquals(fifo.size, model.length);
        }
        const rest = fifo.clear();
        assert(rest.length === model.length && rest.every((it, i) => it === model[i]));
        assertEquals([fifo.size, fifo.shift()], [0, undefined]);
      }),
      { numRuns: 300, seed },
    );
  });
});
