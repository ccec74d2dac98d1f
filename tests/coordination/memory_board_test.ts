import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Board, MemoryStore } from "../../src/coordination/mod.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { boardCases } from "./_board_cases.ts";

describe("a board in memory", () => {
  for (const { name, run } of boardCases.filter(({ corrupts }) => !corrupts)) {
    it(name, () =>
      run((options) => {
        const clock = new VirtualClock();
        const store = new MemoryStore({ clock });
        const board = new Board({ ...options, clock, store });
        return {
          board,
          another: () => Promise.resolve(new Board({ ...options, clock, store })),
          pass: (ms) => clock.advance(ms),
          async [Symbol.asyncDispose]() {
            await board.close();
            assertEquals(clock.pending, 0);
          },
        };
      }));
  }
});
