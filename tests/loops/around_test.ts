import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { Worker } from "./_worker.ts";

describe("around", () => {
  it("runs around the handler of each message, with its message and context", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const seen: unknown[] = [];
    const loop = worker.loop(({ body }) => void seen.push(`handle ${body}`), {
      around: async (message, { attempt }, next) => {
        seen.push(`before ${message.body}, attempt ${attempt}`);
        await next();
        seen.push(`after ${message.body}`);
      },
    });
    await worker.workOff(loop);
    assertEquals(seen, [
      ...["before 1, attempt 1", "handle 1", "after 1"],
      ...["before 2, attempt 1", "handle 2", "after 2"],
    ]);
    assertEquals(loop.counts.acknowledged, 2);
  });

  it("sees what the handler throws, and decides what the message fails with", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const loop = worker.loop(({ body }) => {
      throw new Error(`bad ${body}`);
    }, {
      deadLetter: { maxDeliveries: 1 },
      around: async (message, _, next) => {
        try {
          await next();
        } catch (error) {
          if (message.body === 2) return; // handled here
          throw new TypeError("wrapped", { cause: error });
        }
      },
    });
    await worker.workOff(loop);
    assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 1]);
    const [letter] = await worker.mailbox.deadLetters.receive();
    assertEquals(letter?.body.error, "TypeError: wrapped");
  });

  it("is refused when it is not a function", () => {
    assertThrows(() => new Worker().loop(() => {}, { around: 1 as never }), TypeError, "around");
  });
});
