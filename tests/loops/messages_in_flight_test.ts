import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { Worker } from "./_worker.ts";

describe("the messages in flight of a MailboxLoop", () => {
  it("the messages in flight of a MailboxLoop have their attempt, running time and finished steps", async () => {
    const worker = new Worker();
    const { id } = await worker.mailbox.send(1);
    const go = deferred();
    const loop = worker.loop(async (_, { step, attempt }) => {
      await step("charge", () => 1);
      if (attempt === 1) throw new Error("the printer is busy");
      await step("print", () => worker.clock.sleep(2_000));
      await go.promise;
    }, { backoff: { minMs: 1_000, maxMs: 1_000 } });
    assertEquals(loop.messagesInFlight, [], "no run");
    const run = loop.run({ maxMessages: 2 });
    await worker.clock.advance(1_500);
    const [running] = loop.messagesInFlight;
    assertEquals([running?.attempt, running?.steps], [2, ["charge"]]);
    await worker.clock.advance(3_500);
    const [later, ...others] = loop.messagesInFlight;
    assertEquals({ ...later, runningMs: 0 }, {
      ...{ id, attempt: 2, runningMs: 0, finishedSteps: 2 },
      steps: ["charge", "print"],
    });
    assertEquals([Math.round(later!.runningMs - running!.runningMs), others], [3_500, []]);
    go.resolve();
    await worker.clock.until(run);
    assertEquals(loop.messagesInFlight, []);
  });

  it("the messages in flight of a MailboxLoop are the 10 that run longest, and not those that wait", async () => {
    const worker = new Worker();
    const go = deferred();
    const loop = worker.loop(() => go.promise, { concurrency: 15, prefetch: 10 });
    const run = loop.run({ maxMessages: 20 });
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) {
      ids.push((await worker.mailbox.send(i)).id);
      await worker.clock.advance(10);
    }
    assertEquals(loop.inFlight.length, 20);
    const found = loop.messagesInFlight;
    assertEquals(found.map(({ id }) => id), ids.slice(0, 10));
    assertEquals(found.map(({ runningMs }) => found[0]!.runningMs - runningMs), [
      ...[0, 10, 20, 30, 40, 50, 60, 70, 80, 90],
    ]);
    go.resolve();
    await worker.clock.until(run);
  });

  it("the messages in flight of a MailboxLoop have the names of their last 10 steps and the number of all", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const go = deferred();
    const loop = worker.loop(async (_, { step }) => {
      for (let i = 1; i <= 12; i++) await step(`step ${i}`, () => i);
      await go.promise;
    });
    const run = loop.run({ maxMessages: 1 });
    await worker.clock.advance(10);
    const [{ finishedSteps, steps }] = loop.messagesInFlight as [typeof loop.messagesInFlight[0]];
    assertEquals([finishedSteps, steps.length, steps[0], steps[9]], [12, 10, "step 3", "step 12"]);
    go.resolve();
    await worker.clock.until(run);
  });
});
