import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
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

  it("concurrent changes share a write, and an invalid one rejects alone", async () => {
    const store = new MemoryStore();
    await using board = new Board({ store });
    const write = store.write.bind(store);
    const sizes: number[] = [];
    store.write = (entries) => (sizes.push(entries.length), write(entries));
    const first = board.setState("a", "running");
    const invalid = board.setState("b", "shutdown_complete");
    await assertRejects(() => board.setState("a b", "running"), TypeError, "Invalid agent id");
    const during = board.setState("c", "running"); // the first write has started
    await assertRejects(() => invalid, Error, "cannot go from unknown");
    await Promise.all([first, during]);
    assertEquals(sizes, [2, 1]);
    store.write = () => Promise.reject(new Error("unreachable"));
    await assertRejects(() => board.setState("a", "shutting_down"), Error, "unreachable");
    store.write = write;
    await board.setState("a", "shutting_down");
    const states = (await board.list()).map(({ agentId, status }) => [agentId, status]);
    assertEquals(states, [["a", "shutting_down"], ["c", "running"]]);
  });
});
