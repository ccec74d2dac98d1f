import { describe, it } from "node:test";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { assert, assertEquals } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxConnectionError } from "../../src/mailbox/errors.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import type { StandardSchema } from "../../src/loops/schema.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { Worker } from "./_worker.ts";

const fails = () => {
  throw new Error("no luck");
};

describe("a message that fails", () => {
  it("is tried again after growing pauses, with its attempts counted", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const at: number[] = [];
    const attempts: number[] = [];
    const loop = worker.loop((_, { attempt }) => {
      at.push(worker.clock.monotonic());
      attempts.push(attempt);
      if (attempt < 4) fails();
    }, { backoff: { minMs: 1_000, maxMs: 60_000 } });
    await worker.workOff(loop);
    assertEquals(attempts, [1, 2, 3, 4]);
    for (const [i, pause] of at.slice(1).map((now, i) => now - at[i]!).entries()) {
      const longest = 1_000 * 2 ** i;
      assert(pause >= longest / 2 && pause <= longest, `pause ${i} was ${pause}`);
    }
    assertEquals([loop.counts.nacked, loop.counts.acknowledged], [3, 1]);
  });

  it("for good is dead-lettered with the reason, and can be redriven", async () => {
    const worker = new Worker();
    await worker.fill(1);
    let broken = true;
    const loop = worker.loop(() => broken ? fails() : undefined, {
      deadLetter: { maxDeliveries: 3 },
    });
    await worker.workOff(loop);
    assertEquals([loop.counts.nacked, loop.counts.deadLettered], [2, 1]);
    const [letter] = await worker.mailbox.deadLetters.receive();
    const { body, reason, error, deliveryCount } = letter!.body;
    assertEquals([body, reason, error, deliveryCount], [1, "max_deliveries", "Error: no luck", 3]);
    await letter!.release();

    broken = false;
    assertEquals(await redrive(worker.mailbox), 1);
    await worker.workOff(loop);
    assertEquals(loop.counts.acknowledged, 1);
    assertEquals(await worker.mailbox.deadLetters.approximateCount(), 0);
  });

  it("for good can be worked on where it lies: dead letters are a mailbox", async () => {
    const worker = new Worker();
    await worker.fill(2);
    await worker.workOff(worker.loop(fails, { deadLetter: { maxDeliveries: 1 } }));
    const mended: unknown[] = [];
    const { clock, mailbox: { deadLetters } } = worker;
    const undertaker = new MailboxLoop({
      mailbox: deadLetters,
      clock,
      log: silentLog,
      handler: ({ body: { body, reason } }) => void mended.push([body, reason]),
    });
    await clock.until(undertaker.run({ maxIterations: 2 }));
    assertEquals(mended, [[1, "max_deliveries"], [2, "max_deliveries"]]);
    assertEquals(await deadLetters.approximateCount(), 0);
  });

  it("with an error of `include` is dead-lettered at once, with one of `exclude` never", async () => {
    class Busy extends Error {}
    const worker = new Worker();
    await worker.fill(2);
    let busy = 10;
    const loop = worker.loop(({ body }) => {
      if (body === 1) throw new TypeError("hopeless");
      if (busy-- > 0) throw new Busy("later");
    }, { deadLetter: { maxDeliveries: 3, include: [TypeError], exclude: [Busy] } });
    await worker.workOff(loop);
    assertEquals([loop.counts.deadLettered, loop.counts.nacked], [1, 10]);
  });

  it("does not stop the others", async () => {
    const worker = new Worker();
    await worker.fill(20);
    const loop = worker.loop(({ body }) => body % 5 === 0 ? fails() : undefined, {
      deadLetter: { maxDeliveries: 1 },
      concurrency: 4,
    });
    await worker.workOff(loop);
    assertEquals([loop.counts.acknowledged, loop.counts.deadLettered], [16, 4]);
  });

  it("to fit its schema is dead-lettered with the reasons; what fits is what the schema made", async () => {
    const worker = new Worker();
    // What follows the specification fits as it is.
    const standard: StandardSchemaV1<unknown, number> = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: (value) =>
          typeof value === "number"
            ? { value: value * 10 }
            : { issues: [{ message: "not a number", path: ["order", { key: "count" }] }] },
      },
    };
    const schema: StandardSchema<number> = standard;
    await worker.mailbox.sendMany([1, "two" as never, 3]);
    const seen: number[] = [];
    await worker.workOff(worker.loop(({ body }) => void seen.push(body), { schema }));
    assertEquals(seen, [10, 30]);
    const [letter] = await worker.mailbox.deadLetters.receive();
    assertEquals([letter?.body.reason, letter?.body.error], [
      "schema",
      "order.count: not a number",
    ]);
  });

  it("finds the progress of the attempt before", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const begunAt: unknown[] = [];
    const loop = worker.loop(async (message, { attempt, checkpoint }) => {
      begunAt.push(message.checkpoint);
      await checkpoint({ page: attempt * 10 });
      if (attempt < 3) fails();
    });
    await worker.workOff(loop);
    assertEquals(begunAt, [undefined, { page: 10 }, { page: 20 }]);
  });
});

describe("trouble with the engine", () => {
  it("a failing receive backs off, turns readiness red, and recovers by itself", async () => {
    const worker = new Worker();
    const { mailbox, clock } = worker;
    const receive = mailbox.receive.bind(mailbox);
    let away = true;
    let tries = 0;
    mailbox.receive = (options) => {
      tries++;
      return away ? Promise.reject(new MailboxConnectionError("away")) : receive(options);
    };
    const loop = worker.loop(() => {});
    const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
    const run = group.run({ installSignals: false });
    await clock.advance(120_000);
    assertEquals([group.health().ready, group.health().live, loop.running], [false, true, true]);
    assert(tries < 250, `${tries} tries in two minutes`);
    away = false;
    await worker.fill(3);
    await clock.advance(1_000);
    assertEquals([loop.counts.acknowledged, group.health().ready], [3, true]);
    await clock.until(group.shutdown());
    await run;
  });

  it("readiness is green again as soon as the engine is back, though there is nothing to do", async () => {
    const worker = new Worker();
    const { mailbox, clock } = worker;
    const receive = mailbox.receive.bind(mailbox);
    let away = true;
    mailbox.receive = (options) =>
      away ? Promise.reject(new MailboxConnectionError("away")) : receive(options);
    const loop = worker.loop(() => {});
    const run = loop.run({ maxIterations: 2, waitTimeMs: 20_000 });
    await clock.advance(10_000);
    assertEquals(loop.ready, false);
    away = false;
    await clock.advance(1_000);
    assertEquals(loop.ready, true);
    await clock.advance(30_000);
    assertEquals(loop.running, true, "the look is no iteration: the second wait is not over");
    await clock.until(run);
  });

  it("a receive that keeps failing is told of rarely", async () => {
    const told: string[] = [];
    const log = { ...silentLog, warn: (message: string) => void told.push(message) };
    const worker = new Worker();
    worker.mailbox.receive = () => Promise.reject(new MailboxConnectionError("away"));
    const loop = worker.loop(() => {}, { log });
    const run = loop.run();
    await worker.clock.advance(600_000);
    assert(told.length >= 5 && told.length < 15, `${told.length} warnings in ten minutes`);
    await worker.clock.until(loop.shutdown());
    await run;
  });

  it("a stop does not wait for the backoff of a failing receive", async () => {
    const worker = new Worker();
    worker.mailbox.receive = () => Promise.reject(new MailboxConnectionError("away"));
    const loop = worker.loop(() => {});
    const run = loop.run();
    await worker.clock.advance(60_000);
    assertEquals(await worker.clock.until(loop.shutdown()), true);
    await run;
    assertEquals([worker.clock.monotonic(), worker.clock.pending], [60_000, 0]);
  });

  it("an acknowledge that fails is tried again, and the work is not done twice", async () => {
    const worker = new Worker();
    const { mailbox } = worker;
    await worker.fill(3);
    let failures = 3;
    let handled = 0;
    const acknowledgeMany = mailbox.acknowledgeMany.bind(mailbox);
    mailbox.acknowledgeMany = (messages) => {
      if (failures-- > 0) return Promise.reject(new MailboxConnectionError("away"));
      return acknowledgeMany(messages);
    };
    const loop = worker.loop(() => void handled++, { concurrency: 3 });
    await worker.workOff(loop);
    assertEquals([handled, loop.counts.acknowledged, loop.counts.leftToExpire], [3, 3, 0]);
  });

  it("an acknowledge is tried again as long as the lease lasts when the engine is away", async () => {
    for (const [awayMs, acknowledged] of [[20_000, 1], [60_000, 0]] as const) {
      const worker = new Worker();
      const { mailbox, clock } = worker;
      await worker.fill(1);
      const acknowledgeMany = mailbox.acknowledgeMany.bind(mailbox);
      mailbox.acknowledgeMany = (messages) =>
        clock.monotonic() < awayMs
          ? Promise.reject(new MailboxConnectionError("away"))
          : acknowledgeMany(messages);
      const loop = worker.loop(() => {}, { lease: false });
      const run = loop.run({ maxIterations: 1, visibilityTimeoutMs: 30_000 });
      assertEquals(await clock.until(run), undefined);
      const { counts } = loop;
      assertEquals([counts.acknowledged, counts.leftToExpire], [acknowledged, 1 - acknowledged]);
    }
  });

  it("a stop leaves an acknowledge that fails to the lease when its time is nearly up", async () => {
    const worker = new Worker();
    const { mailbox, clock } = worker;
    await worker.fill(1);
    mailbox.acknowledgeMany = () => Promise.reject(new MailboxConnectionError("away"));
    const loop = worker.loop(() => {});
    const run = loop.run({ visibilityTimeoutMs: 600_000 });
    await clock.advance(60_000);
    assertEquals(loop.inFlight.length, 1);
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 10_000 })), true);
    await run;
    assertEquals([loop.counts.leftToExpire, clock.pending], [1, 0]);
  });

  it("a stop does not wait for an engine that is away when there is only to give back", async () => {
    const worker = new Worker();
    const { mailbox, clock } = worker;
    await worker.fill(2);
    mailbox.releaseMany = () => Promise.reject(new MailboxConnectionError("away"));
    const loop = worker.loop(() => clock.sleep(1_000), { prefetch: 1 });
    const run = loop.run({ visibilityTimeoutMs: 600_000 });
    await clock.advance(500);
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 30_000 })), true);
    await run;
    assertEquals([loop.counts.acknowledged, loop.counts.leftToExpire], [1, 1]);
    assert(clock.monotonic() < 5_000, `stopped after ${clock.monotonic()} ms`);
  });

  it("a prefetched message whose lease was lost is not started", async () => {
    const worker = new Worker();
    const { mailbox, clock } = worker;
    await worker.fill(2);
    const handled: number[] = [];
    const loop = worker.loop(async ({ body }) => {
      handled.push(body);
      await clock.sleep(100_000);
    }, { prefetch: 1 });
    const extendMany = mailbox.extendMany.bind(mailbox);
    mailbox.extendMany = async (messages, ms) => {
      const extended = await extendMany(messages, ms);
      return messages.map(({ body }, i) => body === 1 && extended[i]!); // the other one is lost
    };
    const run = loop.run({ maxIterations: 2 });
    await clock.advance(90_000);
    assertEquals(handled, [1]);
    await clock.advance(20_000);
    await clock.until(loop.shutdown());
    await run;
    assertEquals([handled, loop.counts.acknowledged, loop.counts.leftToExpire], [[1], 1, 1]);
  });

  it("a lease that was lost aborts the handler, and nothing is settled for it", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const acknowledgeMany = worker.mailbox.acknowledgeMany.bind(worker.mailbox);
    const acknowledged: number[] = [];
    worker.mailbox.acknowledgeMany = (messages) => {
      acknowledged.push(...messages.map(({ deliveryCount }) => deliveryCount));
      return acknowledgeMany(messages);
    };
    const reasons: string[] = [];
    const loop = worker.loop(async (_, { signal, attempt }) => {
      if (attempt > 1) return;
      await worker.clock.sleep(60_000, { signal }).catch(() => reasons.push(signal.reason.name));
    }, { lease: { intervalMs: 3_000, adaptive: false } });
    const run = loop.run({ visibilityTimeoutMs: 2_000 });
    await worker.clock.advance(10_000);
    assertEquals(reasons, ["LeaseLostError"]);
    assertEquals([loop.counts.leftToExpire, loop.counts.acknowledged], [1, 1]);
    assertEquals(acknowledged, [2], "an engine without a fence would take it for the new owner's");
    await worker.clock.until(loop.shutdown());
    await run;
    assertEquals(await worker.mailbox.approximateCount(), 0);
  });

  it("a mailbox without batch calls is settled one by one", async () => {
    const worker = new Worker();
    await worker.fill(5);
    const plain = worker.mailbox as unknown as Record<string, unknown>;
    for (const offer of ["acknowledgeMany", "releaseMany", "extendMany"]) plain[offer] = undefined;
    const loop = worker.loop(() => worker.clock.sleep(5_000), { prefetch: 2 });
    const run = loop.run({ visibilityTimeoutMs: 1_000 });
    await worker.clock.advance(6_000);
    await worker.clock.until(loop.shutdown());
    await run;
    const { received, acknowledged, released } = loop.counts;
    assertEquals([acknowledged, released, received], [2, 2, 4]);
  });
});
