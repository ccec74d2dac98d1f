import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Message, ReceiveOptions } from "../../src/mailbox/mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Worker } from "./_worker.ts";

/** Records the options of its receives. */
class Recording extends InMemoryMailbox<number> {
  readonly received: ReceiveOptions[] = [];

  override receive(options: ReceiveOptions = {}): Promise<Message<number>[]> {
    this.received.push(options);
    return super.receive(options);
  }

  get timeouts(): unknown[] {
    return this.received.map(({ visibilityTimeoutMs, waitTimeMs }) => [
      visibilityTimeoutMs,
      waitTimeMs,
    ]);
  }
}

function groupOf(loops: readonly MailboxLoop<number>[], clock: VirtualClock): LoopGroup {
  const runtime = new FakeRuntime();
  return new LoopGroup(loops, { runtime, clock, watchdogThresholdMs: false, log: silentLog });
}

describe("maxMessages", () => {
  for (
    const [concurrency, prefetch] of [[1, 0], [3, 0], [10, 0], [2, 5], [100, 100], [
      3,
      "auto",
    ]] as const
  ) {
    it(`ends a run after exactly that many messages, ${concurrency} at a time and ${prefetch} ahead`, async () => {
      const worker = new Worker();
      await worker.fill(20);
      const loop = worker.loop(({ body }) => worker.clock.sleep(body * 10), {
        concurrency,
        prefetch,
      });
      await worker.clock.until(loop.run({ maxMessages: 7 }));
      assertEquals([loop.counts.received, loop.counts.acknowledged], [7, 7]);
      const left = await worker.mailbox.peek(100);
      assertEquals(left.map(({ body }) => body), Array.from({ length: 13 }, (_, i) => i + 8));
      assert(left.every(({ deliveryCount }) => deliveryCount === 0), "none was received");
    });
  }

  it("counts a failed message as settled", async () => {
    const worker = new Worker();
    await worker.fill(5);
    const loop = worker.loop(({ body }) => {
      if (body % 2 === 1) throw new Error("odd");
    }, { concurrency: 2 });
    await worker.clock.until(loop.run({ maxMessages: 3 }));
    const { received, acknowledged, nacked } = loop.counts;
    assertEquals([received, acknowledged, nacked], [3, 1, 2]);
  });

  it("counts no released message: a suspect that waits to run alone is received again", async () => {
    const worker = new Worker();
    await worker.fill(3);
    for (const _ of [1, 2]) {
      await worker.mailbox.receive({ maxMessages: 3, visibilityTimeoutMs: 10 });
      await worker.clock.advance(10);
    }
    const bodies: number[] = [];
    const loop = worker.loop(({ body }) => bodies.push(body), {
      concurrency: 3,
      deadLetter: { maxDeliveries: 2 },
    });
    await worker.clock.until(loop.run({ maxMessages: 3 }));
    assertEquals(bodies.sort(), [1, 2, 3]);
    assertEquals([loop.counts.acknowledged, loop.counts.released], [3, 3]);
  });

  it("waits for messages that are not there yet, and ends at once for 0", async () => {
    const worker = new Worker();
    const loop = worker.loop(() => {}, { concurrency: 10 });
    const run = loop.run({ maxMessages: 2 });
    await worker.clock.advance(60_000);
    await worker.fill(1);
    await worker.clock.advance(60_000);
    assertEquals([loop.running, loop.counts.acknowledged], [true, 1]);
    await worker.fill(1);
    await worker.clock.until(run);
    await worker.fill(1);
    await loop.run({ maxMessages: 0 });
    assertEquals(loop.counts.received, 0);
  });

  it("holds for each loop of a group", async () => {
    const worker = new Worker();
    await worker.fill(10);
    const loops = ["a", "b"].map((name) => worker.loop(() => {}, { name, concurrency: 5 }));
    const run = groupOf(loops, worker.clock).run({ maxMessages: 3 });
    await worker.clock.until(run);
    assertEquals(loops.map(({ counts }) => counts.acknowledged), [3, 3]);
    assertEquals(await worker.mailbox.approximateCount(), 4);
  });

  it("refuses a number that is none", async () => {
    const loop = new Worker().loop(() => {});
    for (const maxMessages of [-1, 1.5, NaN]) {
      await assertRejects(() => loop.run({ maxMessages }), RangeError, "Invalid maxMessages");
    }
    await assertRejects(() => loop.run({ maxMessages: "1" as never }), TypeError, "maxMessages");
  });
});

describe("the timeouts of a MailboxLoop", () => {
  const options = { handler: () => {}, log: silentLog };

  it("may differ between the loops of a group, and `run` overrides both", async () => {
    const clock = new VirtualClock();
    const mailboxes = ["a", "b", "c"].map((name) => new Recording(name, { clock }));
    const [a, b, c] = mailboxes as [Recording, Recording, Recording];
    const loops = [
      new MailboxLoop({ ...options, mailbox: a, clock }),
      new MailboxLoop({ ...options, mailbox: b, clock, visibilityTimeoutMs: 5_000, waitTimeMs: 7 }),
      new MailboxLoop({ ...options, mailbox: c, clock, waitTimeMs: 9 }),
    ];
    const group = groupOf(loops, clock);
    await clock.until(group.run({ maxIterations: 1 }));
    assertEquals(a.timeouts, [[300_000, 20_000]]);
    assertEquals(b.timeouts, [[5_000, 7]]);
    assertEquals(c.timeouts, [[300_000, 9]]);
    await clock.until(group.run({ maxIterations: 1, visibilityTimeoutMs: 1_000, waitTimeMs: 1 }));
    assertEquals(mailboxes.map((it) => it.timeouts.at(-1)), [[1_000, 1], [1_000, 1], [1_000, 1]]);
  });

  it("are the same mistake in the loop, in its run and in a receive of its mailbox", async () => {
    const mailbox = new InMemoryMailbox<number>("jobs");
    const loop = new MailboxLoop({ ...options, mailbox });
    const cases = [
      [{ visibilityTimeoutMs: -1 }, RangeError],
      [{ visibilityTimeoutMs: 43_200_001 }, RangeError],
      [{ visibilityTimeoutMs: "5" as never }, TypeError],
      [{ waitTimeMs: NaN }, RangeError],
      [{ waitTimeMs: "5" as never }, TypeError],
    ] as const;
    for (const [bad, Kind] of cases) {
      assertThrows(() => new MailboxLoop({ ...options, mailbox, ...bad }), Kind);
      await assertRejects(() => loop.run(bad), Kind);
      await assertRejects(() => mailbox.receive(bad), Kind);
    }
  });
});
