import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { type Clock, systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { Prefetch } from "../../src/loops/_prefetch.ts";
import { MailboxLoop, type MailboxLoopOptions } from "../../src/loops/mailbox_loop.ts";
import { FaultyMailbox } from "../../src/testing/faulty_mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Worker } from "./_worker.ts";

/** Runs a loop whose handlers take `ms`, and returns the most messages that were seen to wait for one. */
async function mostWaiting(
  worker: Worker,
  ms: number,
  options: Partial<MailboxLoopOptions<number>> = {},
): Promise<number> {
  const loop = worker.loop(() => worker.clock.sleep(ms), options);
  const run = loop.run();
  let most = 0;
  while (await worker.mailbox.approximateCount() > 0) {
    await worker.clock.advance(Math.max(ms, 1) / 2);
    most = Math.max(most, loop.ahead!.waiting);
  }
  await worker.clock.until(loop.shutdown());
  await run;
  return most;
}

describe("automatic prefetch", () => {
  it("handlers of more than 20 ms get no messages ahead", async () => {
    const worker = new Worker();
    await worker.fill(100);
    assertEquals(await mostWaiting(worker, 21), 0);
  });

  for (const [concurrency, ms, most] of [[1, 1, 19], [1, 5, 3], [10, 1, 190], [10, 50, 0]]) {
    it(`handlers of ${ms} ms, ${concurrency} at a time, get messages ahead for 20 ms of work`, async () => {
      const worker = new Worker();
      await worker.fill(1_000);
      const found = await mostWaiting(worker, ms!, { concurrency: concurrency! });
      // A receive may begin while only some of the handlers of this moment have been counted.
      assert(found <= most! && found >= 0.9 * most!, `${found}`);
    });
  }

  it("handlers that take no time get at most 500 messages ahead", async () => {
    const worker = new Worker();
    await worker.fill(5_000);
    let most = 0;
    const loop: MailboxLoop<number> = worker.loop(() => {
      most = Math.max(most, loop.ahead!.waiting);
    });
    await worker.workOff(loop);
    // Some handlers start while the messages are on their way from the mailbox.
    assert(most <= 500 && most >= 0.9 * 500, `${most}`);
  });

  it("a run begins with none ahead, and receives no more ahead than it has handled", async () => {
    const worker = new Worker();
    await worker.fill(100);
    const waiting: number[] = [];
    const loop: MailboxLoop<number> = worker.loop(() => {
      waiting.push(loop.ahead!.waiting);
      return worker.clock.sleep(0.1);
    });
    await worker.workOff(loop);
    assertEquals(waiting[0], 0);
    for (const [handled, count] of waiting.entries()) assert(count <= handled, `${waiting}`);
  });

  it("a stop releases the messages that wait, and spends no attempt", async () => {
    const worker = new Worker();
    for (let stop = 0; stop < 8; stop++) {
      await worker.fill(25);
      const loop = worker.loop(() => worker.clock.sleep(1));
      const run = loop.run();
      while (loop.ahead!.waiting < 5) await worker.clock.advance(1);
      await worker.clock.until(loop.shutdown());
      await run;
      assert(loop.counts.released >= 5);
      const left = await worker.mailbox.receive({ maxMessages: 1_000 });
      assertEquals(left.map(({ deliveryCount }) => deliveryCount), left.map(() => 1));
      await worker.mailbox.releaseMany(left, { unstarted: true });
    }
  });

  it("an idle worker gets the messages behind a slow handler after 100 ms, and no attempt is spent", async () => {
    const worker = new Worker();
    const slow = worker.loop(({ body }) => worker.clock.sleep(body === 60 ? 10_000 : 1));
    await worker.fill(60);
    const first = slow.run();
    await worker.clock.advance(40);
    await worker.fill(15); // received while 20 ms of work are ahead of the slow handler
    while (!slow.messagesInFlight.some(({ runningMs }) => runningMs > 20)) {
      await worker.clock.advance(1);
    }
    const waiting = slow.ahead!.waiting;
    assert(waiting > 0);
    assertEquals(slow.ahead!.most, 0, "nothing more is received ahead");

    const attempts: number[] = [];
    const idle = worker.loop((_, { attempt }) => void attempts.push(attempt), { name: "idle" });
    const second = idle.run();
    await worker.clock.advance(79);
    assertEquals(slow.ahead, { most: 0, waiting: 0 });
    assertEquals(slow.counts.released, waiting);
    assertEquals(attempts, Array.from({ length: 15 }, () => 1));
    await worker.clock.until(Promise.all([slow.shutdown(), idle.shutdown()]));
    await Promise.all([first, second]);
  });

  it("the messages behind a slow handler are released after an outage, and no attempt is spent", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    const lastMs = 10_000;
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      handler: ({ body }) => clock.sleep(body === 60 ? lastMs : 1),
    });
    await mailbox.sendMany(Array.from({ length: 75 }, (_, i) => i + 1));
    const run = loop.run();
    while (!loop.messagesInFlight.some(({ runningMs }) => runningMs > 20)) await clock.advance(1);
    const { waiting } = loop.ahead!;
    assert(waiting > 0);
    mailbox.loseConnection();
    await clock.advance(5_000);
    mailbox.restoreConnection();
    await clock.advance(1_500);
    assertEquals(loop.counts.released, waiting);
    await clock.until(loop.shutdown());
    await run;
    assertEquals(loop.counts.leftToExpire, 0);
    const left = await mailbox.receive({ maxMessages: 100 });
    assertEquals(left.map(({ deliveryCount }) => deliveryCount), Array(15).fill(1));
  });

  it("a loop learns again when its handlers become slower", async () => {
    const worker = new Worker();
    await worker.fill(700);
    let waiting = 0;
    const loop: MailboxLoop<number> = worker.loop(({ body }) => {
      if (body > 600) waiting = Math.max(waiting, loop.ahead!.waiting);
      return worker.clock.sleep(body <= 200 ? 1 : 25);
    });
    await worker.workOff(loop);
    assertEquals(waiting, 0);
  });

  it("a run with maxIterations takes as many messages per receive as there are free slots", async () => {
    const worker = new Worker();
    await worker.fill(50);
    const loop = worker.loop(() => {}, { concurrency: 2 });
    await loop.run({ maxIterations: 10 });
    assertEquals(loop.counts.acknowledged, 20);
  });

  it("a loop receives none ahead where a release would spend an attempt", async () => {
    const worker = new Worker();
    const capabilities = { ...worker.mailbox.capabilities, restoresAttempts: false };
    Object.defineProperty(worker.mailbox, "capabilities", { value: capabilities });
    await worker.fill(100);
    assertEquals(await mostWaiting(worker, 1), 0);
  });

  it("a timer that fires a moment early is not set again", () => {
    const delays: number[] = [];
    let fire = () => {};
    let now = 0;
    const clock: Clock = {
      ...systemClock,
      monotonic: () => now,
      schedule(ms, task) {
        delays.push(ms);
        fire = task;
        return () => {};
      },
    };
    let since: number | undefined = 0;
    new Prefetch("auto", 1, clock).watch(() => since, () => void (since = undefined));
    now = 99.999_999;
    fire();
    assertEquals([delays, since], [[100], undefined]);
  });

  it("leaves no timer when the run ends", async () => {
    const worker = new Worker();
    await worker.fill(100);
    await mostWaiting(worker, 1);
    assertEquals(worker.clock.pending, 0);
  });
});
