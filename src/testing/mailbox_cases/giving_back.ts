import { assertEquals } from "@std/assert";
import { topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("release and nack");
const restoring = topic("release and nack", { requires: ["restoresAttempts"] });
const inOrder = topic("release and nack", { requires: ["fifo"] });

/** What was taken and not done goes back. */
export const givingBack: readonly MailboxCase[] = [
  holds("a nacked message is there again at once, and the attempt counts", async (bench) => {
    await bench.mailbox.send("work");
    const first = await bench.take();
    await first.nack();
    assertEquals(first.finalized, true);
    const second = await bench.take();
    assertEquals([second.id, second.deliveryCount], [first.id, 2]);
  }),

  holds("a message nacked with a delay stays hidden for that long", async (bench) => {
    await bench.mailbox.sendMany(["a", "b"]);
    const [late, soon] = await bench.mailbox.receive({ maxMessages: 2 });
    await late!.nack({ delayMs: bench.ms(100) });
    await soon!.nack({ delayMs: bench.ms(3) });
    await bench.hidden();
    await bench.pass(3);
    assertEquals((await bench.take()).id, soon!.id, "sooner than its lease would have ended");
    await bench.hidden();
  }),

  topic("release and nack", { requires: ["perReceiveVisibility"] })(
    "a nack may hide a message for longer than its lease",
    async (bench) => {
      await bench.mailbox.send("work");
      const message = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
      await message.nack({ delayMs: bench.ms(100) });
      await bench.pass(3);
      await bench.hidden();
    },
  ),

  holds("a released message is there again at once", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take();
    await message.release();
    assertEquals(message.finalized, true);
    assertEquals((await bench.take()).id, message.id);
  }),

  restoring("a release spends no attempt", async (bench) => {
    await bench.mailbox.send("work");
    await (await bench.take()).nack();
    const second = await bench.take();
    assertEquals(second.deliveryCount, 2);
    await second.release();
    assertEquals((await bench.take()).deliveryCount, 2);
  }),

  restoring(
    "a nack spends no attempt when the failure is not the message's fault",
    async (bench) => {
      await bench.mailbox.send("work");
      await (await bench.take()).nack();
      await (await bench.take()).nack({ countsAttempt: false, delayMs: bench.ms(2) });
      await bench.hidden();
      await bench.pass(2);
      assertEquals((await bench.take()).deliveryCount, 2);
    },
  ),

  restoring("after five releases every further one spends its attempt", async (bench) => {
    await bench.mailbox.send("work");
    const counts: number[] = [];
    for (let i = 0; i < 8; i++) {
      const message = await bench.take();
      counts.push(message.deliveryCount);
      await message.release();
    }
    assertEquals(counts, [1, 1, 1, 1, 1, 1, 2, 3]);
  }),

  inOrder("a released message keeps its place", async (bench) => {
    await bench.mailbox.sendMany([1, 2, 3]);
    const first = await bench.take();
    await first.release();
    assertEquals(await bench.drain(), [1, 2, 3]);
  }),

  inOrder("a batch that is given back comes again in its order", async (bench) => {
    await bench.mailbox.sendMany([1, 2, 3, 4, 5]);
    const batch = await bench.mailbox.receive({ maxMessages: 4 });
    for (const i of [2, 0, 3, 1]) await batch[i]!.release();
    assertEquals(await bench.drain(), [1, 2, 3, 4, 5]);
  }),

  topic("release and nack", { requires: ["fifo", "perReceiveVisibility"] })(
    "messages whose lease has ended keep their place",
    async (bench) => {
      await bench.mailbox.sendMany([1, 2, 3, 4]);
      await bench.take({ visibilityTimeoutMs: bench.ms(2) });
      await bench.take({ visibilityTimeoutMs: bench.ms(1) });
      await bench.pass(2);
      assertEquals(await bench.drain(), [1, 2, 3, 4]);
    },
  ),

  topic("release and nack", { requires: ["fifo"], needs: ["releaseMany"] })(
    "many that are released together keep their places",
    async (bench) => {
      await bench.mailbox.sendMany([1, 2, 3, 4, 5]);
      const batch = await bench.mailbox.receive({ maxMessages: 4 });
      assertEquals(await bench.mailbox.releaseMany(batch.reverse()), [true, true, true, true]);
      const again = await bench.mailbox.receive({ maxMessages: 10 });
      assertEquals(again.map(({ body }) => body), [1, 2, 3, 4, 5]);
      if (!bench.mailbox.capabilities.restoresAttempts) return;
      assertEquals(again.map(({ deliveryCount }) => deliveryCount), [1, 1, 1, 1, 1]);
    },
  ),
];
