import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { HandlerContext } from "../../src/loops/handler.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { errorText } from "../../src/errors.ts";
import { Worker } from "./_worker.ts";

type Step = HandlerContext["step"];

/** Runs handlers one after the other, each for one delivery of one message. Returns what each threw. */
async function deliveries(
  worker: Worker,
  ...handlers: readonly ((step: Step, attempt: number) => Promise<unknown>)[]
): Promise<readonly string[]> {
  const errors: string[] = [];
  let delivery = 0;
  const loop = worker.loop(async (_, { step, attempt }) => {
    const handler = handlers[delivery++]!;
    try {
      await handler(step, attempt);
    } catch (error) {
      errors.push(errorText(error));
      throw error;
    }
  }, { backoff: { minMs: 10, maxMs: 10 } });
  await worker.fill(1);
  await worker.workOff(loop);
  return errors;
}

const crash = () => Promise.reject(new Error("crash"));

describe("a step", () => {
  it("runs once per message, and later deliveries get its result", async () => {
    const calls: string[] = [];
    const results: unknown[] = [];
    const handler = (end: () => unknown) => async (step: Step) => {
      results.push(await step("charge", () => (calls.push("charge"), { id: 7 })));
      results.push(await step("note", () => void calls.push("note")));
      await end();
      results.push(await step("mail", () => Promise.resolve(calls.push("mail"))));
    };
    const errors = await deliveries(new Worker(), handler(crash), handler(() => {}));
    assertEquals(errors, ["Error: crash"]);
    assertEquals(calls, ["charge", "note", "mail"]);
    assertEquals(results, [{ id: 7 }, undefined, { id: 7 }, undefined, 3]);
  });

  it("that fails runs again", async () => {
    let calls = 0;
    const handler = async (step: Step) => {
      await step("charge", () => {
        if (++calls === 1) throw new Error("declined");
      });
    };
    assertEquals(await deliveries(new Worker(), handler, handler), ["Error: declined"]);
    assertEquals(calls, 2);
  });

  it("returns its result as JSON in every delivery", async () => {
    const seen: unknown[] = [];
    const handler = (end: () => unknown) => async (step: Step) => {
      seen.push(await step("when", () => new Date(0)));
      await end();
    };
    await deliveries(new Worker(), handler(crash), handler(() => {}));
    assertEquals(seen, ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"]);
  });

  it("with a result that is not JSON fails, and is not saved", async () => {
    const worker = new Worker();
    const [error] = await deliveries(
      worker,
      async (step) => await step("big", () => 10n),
      async (step) => await step("big", () => 10),
    );
    assertEquals(error?.includes('The result of step "big" cannot be written as JSON'), true);
  });

  it("with a name that was used before is refused", async () => {
    const [error] = await deliveries(
      new Worker(),
      async (step) => {
        await step("charge", () => 1);
        await step("charge", () => 2);
      },
      async (step) => await step("charge", () => 1),
    );
    assertEquals(error?.includes("give each step a name of its own"), true);
  });

  it("is refused when its name or place has changed since an earlier delivery", async () => {
    for (
      const changed of [
        async (step: Step) => await step("bill", () => 1),
        async (step: Step) => {
          await step("prepare", () => 0);
          await step("charge", () => 1);
        },
      ]
    ) {
      const calls: string[] = [];
      const errors = await deliveries(
        new Worker(),
        async (step) => {
          await step("charge", () => calls.push("charge"));
          await crash();
        },
        changed,
        async (step) => await step("charge", () => calls.push("again")),
      );
      assertEquals(errors[1]?.includes("keep the names and the order of steps"), true, errors[1]);
      assertEquals(calls, ["charge"]);
    }
  });

  it("runs at the same time as others, and each result is saved", async () => {
    const calls: string[] = [];
    const handler = (end: () => unknown) => async (step: Step) => {
      const names = ["a", "b", "c"];
      const all = names.map((name) => step(name, () => (calls.push(name), name.toUpperCase())));
      assertEquals(await Promise.all(all), ["A", "B", "C"]);
      await end();
    };
    await deliveries(new Worker(), handler(crash), handler(() => {}));
    assertEquals(calls, ["a", "b", "c"]);
  });
});

it("steps and the checkpoint of the handler do not overwrite one another", async () => {
  const worker = new Worker();
  await worker.fill(1);
  const seen: unknown[] = [];
  const loop = worker.loop(async (message, { step, checkpoint, attempt }) => {
    seen.push([message.checkpoint, message.steps.map(({ name }) => name)]);
    if (attempt === 1) await checkpoint({ page: 3 });
    await step("charge", () => 1);
    if (attempt === 2) await checkpoint({ page: 4 });
    if (attempt < 3) throw new Error("again");
  }, { backoff: { minMs: 10, maxMs: 10 } });
  await worker.workOff(loop);
  assertEquals(seen, [
    [undefined, []],
    [{ page: 3 }, ["charge"]],
    [{ page: 4 }, ["charge"]],
  ]);
});

it("peek shows how far a message is, and a redriven message continues", async () => {
  const worker = new Worker();
  const calls: string[] = [];
  await worker.fill(1);
  const work = (end: () => unknown) =>
    worker.loop(async (_, { step }) => {
      await step("charge", () => calls.push("charge"));
      await end();
      await step("mail", () => calls.push("mail"));
    }, { deadLetter: { maxDeliveries: 1 } });
  const failing = work(crash);
  await worker.clock.until(failing.run({ maxMessages: 1 }));
  assertEquals(failing.counts.deadLettered, 1);
  assertEquals(await redrive(worker.mailbox), 1);
  const [peeked] = await worker.mailbox.peek(1);
  assertEquals(peeked?.steps, [{ name: "charge", place: 1, result: 1 }]);
  await worker.clock.until(work(() => {}).run({ maxMessages: 1 }));
  assertEquals(calls, ["charge", "mail"]);
});

it("no step begins after the work was cancelled, so that no other worker repeats its effect", async () => {
  const worker = new Worker();
  await worker.fill(1);
  const calls: string[] = [];
  const ended: string[] = [];
  const handler = (name: string, waitMs: number) =>
    worker.loop(async (_, { step }) => {
      await step("charge", () => calls.push(`${name} charge`));
      await worker.clock.sleep(waitMs); // ignores its signal
      await step("mail", () => calls.push(`${name} mail`)).catch((error) => {
        ended.push(`${name}: ${error.name}`);
        throw error;
      });
    }, { lease: false });
  const slow = handler("slow", 20_000);
  const slowRun = slow.run({ maxIterations: 1, visibilityTimeoutMs: 5_000 });
  await worker.clock.advance(100);
  await worker.clock.until(slow.shutdown({ timeoutMs: 3_000 }));
  await worker.clock.advance(6_000);
  await worker.clock.until(handler("quick", 0).run({ maxMessages: 1 }));
  await worker.clock.until(slowRun);
  assertEquals(calls, ["slow charge", "quick mail"]);
  assertEquals(ended, ["slow: CancelledError"]);
});

it("20 stops of a job that makes progress spend no attempt", async () => {
  const worker = new Worker();
  await worker.fill(1);
  const calls: number[] = [];
  const attempts = new Set<number>();
  const work = () =>
    worker.loop(async (message, { step, stopping, attempt }) => {
      attempts.add(attempt);
      for (let i = 1; i <= 20; i++) {
        await step(`step ${i}`, async () => {
          calls.push(i);
          await worker.clock.sleep(1_000);
        });
        if (stopping.aborted) return await message.release();
      }
    }, { deadLetter: { maxDeliveries: 3 } });
  let stops = 0;
  while (await worker.mailbox.approximateCount() > 0) {
    const loop = work();
    const run = loop.run({ untilEmpty: true, waitTimeMs: 0 });
    await worker.clock.advance(500);
    if (stops < 20) {
      stops++;
      await worker.clock.until(loop.shutdown());
    }
    await worker.clock.until(run);
  }
  assertEquals(calls, Array.from({ length: 20 }, (_, i) => i + 1));
  assertEquals([stops, [...attempts]], [20, [1]]);
  assertEquals(await worker.mailbox.deadLetters.approximateCount(), 0);
});
