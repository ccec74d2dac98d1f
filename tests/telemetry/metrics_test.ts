import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Worker } from "../loops/_worker.ts";
import { type Point, Sdk } from "./_sdk.ts";

const LABELS = {
  "messaging.system": "lastcall",
  "messaging.destination.name": "jobs",
  "messaging.operation.name": "process",
  "messaging.operation.type": "process",
};

/** Returns the values by outcome. All other labels are the same. */
const byOutcome = (points: readonly Point[]) =>
  Object.fromEntries(points.map(([{ "lastcall.outcome": outcome, ...labels }, value]) => {
    assertEquals(labels, LABELS);
    return [outcome, value];
  }));

describe("the metrics of messages", () => {
  it("the metrics of messages count messages by outcome and measure durations", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    await worker.fill(4);
    const loop = worker.loop(async ({ body }) => {
      await worker.clock.sleep(2_000);
      if (body === 3) throw new Error("no");
    }, { deadLetter: { maxDeliveries: 2 } });
    await worker.workOff(loop);
    const counts = { acknowledged: 3, nacked: 1, dead_lettered: 1 };
    assertEquals(byOutcome(await sdk.points("lastcall.messages")), counts);
    const durations = byOutcome(await sdk.points("messaging.process.duration"));
    for (const [outcome, count] of Object.entries(counts)) {
      const { sum, count: measured } = durations[outcome] as { sum: number; count: number };
      assertEquals([measured, sum], [count, 2 * count], outcome);
    }
  });

  it("the metrics of messages count messages in flight", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    await worker.fill(3);
    const loop = worker.loop(() => worker.clock.sleep(2_000), { concurrency: 2 });
    const run = loop.run();
    await worker.clock.settle();
    assertEquals(await sdk.points("lastcall.messages.in_flight"), [[LABELS, 2]]);
    await worker.clock.advance(10_000);
    assertEquals(await sdk.points("lastcall.messages.in_flight"), [[LABELS, 0]]);
    await worker.clock.until(loop.shutdown());
    await run;
  });

  it("the metrics of messages use the currently registered provider", async () => {
    for (let round = 0; round < 2; round++) {
      await using sdk = await Sdk.start();
      const worker = new Worker();
      await worker.fill(1);
      await worker.workOff(worker.loop(() => {}));
      assertEquals(byOutcome(await sdk.points("lastcall.messages")), { acknowledged: 1 });
    }
  });
});
