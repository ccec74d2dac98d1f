import { assertEquals } from "@std/assert";
import { type MailboxCase, topic } from "./mailbox_case.ts";

const holds = topic("release and nack");
const restoring = topic("release and nack", { requires: ["restoresAttempts"] });
const inOrder = topic("release and nack", { requires: ["fifo"] });

/** Released and nacked messages return to the mailbox. */
export const releaseAndNack: readonly MailboxCase[] = [
  topic("release and nack", { requires: ["perReceiveVisibility", "leaseExpiries"] })(
    "only deliveries that ended unsettled count as expired leases",
    async (setup) => {
      await setup.mailbox.send("work");
      await (await setup.receiveOne()).release();
      await (await setup.receiveOne()).nack();
      const third = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
      assertEquals(third.leaseExpiries, 0);
      await setup.pass(1.5);
      const fourth = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
      assertEquals([fourth.leaseExpiries, fourth.deliveryCount], [1, 3]);
      await setup.pass(1.5);
      await (await setup.receiveOne()).nack({ delayMs: setup.ms(1) });
      await setup.pass(1.5);
      assertEquals((await setup.receiveOne()).leaseExpiries, 2, "a nack is no expired lease");
    },
  ),

  holds("a nacked message is visible at once, and the attempt counts", async (setup) => {
    await setup.mailbox.send("work");
    const first = await setup.receiveOne();
    await first.nack();
    assertEquals(first.finalized, true);
    const second = await setup.receiveOne();
    assertEquals([second.id, second.deliveryCount], [first.id, 2]);
  }),

  holds("a message nacked with a delay stays hidden for that long", async (setup) => {
    await setup.mailbox.sendMany(["a", "b"]);
    const [late, soon] = await setup.mailbox.receive({ maxMessages: 2 });
    await late!.nack({ delayMs: setup.ms(100) });
    await soon!.nack({ delayMs: setup.ms(3) });
    await setup.assertNoneVisible();
    await setup.pass(3);
    assertEquals((await setup.receiveOne()).id, soon!.id, "before its lease would have ended");
    await setup.assertNoneVisible();
  }),

  topic("release and nack", { requires: ["perReceiveVisibility"] })(
    "a nack can hide a message for longer than its lease",
    async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
      await message.nack({ delayMs: setup.ms(100) });
      await setup.pass(3);
      await setup.assertNoneVisible();
    },
  ),

  holds("a released message is visible at once", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne();
    await message.release();
    assertEquals(message.finalized, true);
    assertEquals((await setup.receiveOne()).id, message.id);
  }),

  restoring("a release does not count as an attempt", async (setup) => {
    await setup.mailbox.send("work");
    await (await setup.receiveOne()).nack();
    const second = await setup.receiveOne();
    assertEquals(second.deliveryCount, 2);
    await second.release();
    assertEquals((await setup.receiveOne()).deliveryCount, 2);
  }),

  restoring(
    "a nack with countsAttempt false does not count as an attempt",
    async (setup) => {
      await setup.mailbox.send("work");
      await (await setup.receiveOne()).nack();
      await (await setup.receiveOne()).nack({ countsAttempt: false, delayMs: setup.ms(4) });
      await setup.assertNoneVisible();
      await setup.pass(4);
      assertEquals((await setup.receiveOne()).deliveryCount, 2);
    },
  ),

  restoring("the sixth and later releases count as attempts", async (setup) => {
    await setup.mailbox.send("work");
    const counts: number[] = [];
    for (let i = 0; i < 8; i++) {
      const message = await setup.receiveOne();
      counts.push(message.deliveryCount);
      await message.release();
    }
    assertEquals(counts, [1, 1, 1, 1, 1, 1, 2, 3]);
  }),

  inOrder("a released message keeps its position", async (setup) => {
    await setup.mailbox.sendMany([1, 2, 3]);
    const first = await setup.receiveOne();
    await first.release();
    assertEquals(await setup.receiveAndAcknowledge(), [1, 2, 3]);
  }),

  inOrder("messages that are released one by one keep their order", async (setup) => {
    await setup.mailbox.sendMany([1, 2, 3, 4, 5]);
    const batch = await setup.mailbox.receive({ maxMessages: 4 });
    for (const i of [2, 0, 3, 1]) await batch[i]!.release();
    assertEquals(await setup.receiveAndAcknowledge(), [1, 2, 3, 4, 5]);
  }),

  topic("release and nack", { requires: ["fifo", "perReceiveVisibility"] })(
    "messages whose visibility timeout passed keep their position",
    async (setup) => {
      await setup.mailbox.sendMany([1, 2, 3, 4]);
      await setup.receiveOne({ visibilityTimeoutMs: setup.ms(2) });
      await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
      await setup.pass(2);
      assertEquals(await setup.receiveAndAcknowledge(), [1, 2, 3, 4]);
    },
  ),

  topic("release and nack", { requires: ["fifo"], needs: ["releaseMany"] })(
    "messages that are released together keep their positions",
    async (setup) => {
      await setup.mailbox.sendMany([1, 2, 3, 4, 5]);
      const batch = await setup.mailbox.receive({ maxMessages: 4 });
      assertEquals(await setup.mailbox.releaseMany(batch.reverse()), [true, true, true, true]);
      const again = await setup.mailbox.receive({ maxMessages: 10 });
      assertEquals(again.map(({ body }) => body), [1, 2, 3, 4, 5]);
      if (!setup.mailbox.capabilities.restoresAttempts) return;
      assertEquals(again.map(({ deliveryCount }) => deliveryCount), [1, 1, 1, 1, 1]);
    },
  ),

  topic("release and nack", { requires: ["restoresAttempts"], needs: ["releaseMany"] })(
    "a message whose handler did not start spends no attempt, however often it is released",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send(1);
      let message = await setup.receiveOne();
      for (let release = 0; release < 8; release++) {
        const waiting = mailbox.receive({ waitTimeMs: 20_000 });
        assertEquals(await mailbox.releaseMany([message], { unstarted: true }), [true]);
        message = (await waiting)[0]!;
        assertEquals([message.body, message.deliveryCount], [1, 1]);
      }
    },
  ),
];
