import { assertEquals } from "@std/assert";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("visibility", { requires: ["perReceiveVisibility"] });
const fenced = topic("visibility", { requires: ["perReceiveVisibility", "fencedAck"] });

/** A received message is invisible to other receivers until its visibility timeout passes. */
export const visibility: readonly MailboxCase[] = [
  holds("a message is hidden while its lease lasts", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(100) });
    await bench.hidden();
    await bench.pass(1);
    await bench.hidden();
    await message.acknowledge();
  }),

  holds("it is visible again from the moment its lease ends", async (bench) => {
    await bench.mailbox.send("work");
    await bench.take({ visibilityTimeoutMs: bench.ms(1) });
    await bench.pass(1);
    assertEquals((await bench.take()).deliveryCount, 2);
  }),

  holds("every receive chooses its own visibility", async (bench) => {
    const { mailbox } = bench;
    await mailbox.sendMany(["a", "b"]);
    const short = await bench.take({ visibilityTimeoutMs: bench.ms(1) });
    const long = await bench.take({ visibilityTimeoutMs: bench.ms(100) });
    await bench.pass(1);
    assertEquals((await bench.take()).id, short.id);
    await bench.hidden();
    await long.acknowledge();
  }),

  holds("an extension makes a lease last", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
    await message.extendVisibility(bench.ms(100));
    await bench.pass(3);
    await bench.hidden();
    await message.acknowledge();
  }),

  holds("an extension counts from now, not from the end of the lease", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
    await message.extendVisibility(bench.ms(4));
    await bench.pass(4);
    assertEquals((await bench.take()).deliveryCount, 2);
  }),

  holds("an extension never shortens a lease", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(100) });
    await message.extendVisibility(bench.ms(1));
    await message.extendVisibility(0);
    await bench.pass(1);
    await bench.hidden();
    await message.acknowledge();
  }),

  holds("an extension changes the lease of no other message", async (bench) => {
    await bench.mailbox.sendMany(["a", "b"]);
    const options = { maxMessages: 2, visibilityTimeoutMs: bench.ms(3) };
    const [extended, other] = await bench.mailbox.receive(options);
    await extended!.extendVisibility(bench.ms(100));
    await bench.pass(3);
    assertEquals((await bench.take()).id, other!.id);
    await bench.hidden();
  }),

  holds("an extension can be repeated", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
    for (let i = 0; i < 4; i++) {
      await message.extendVisibility(bench.ms(4));
      await bench.pass(1);
    }
    await bench.hidden();
    await message.acknowledge();
  }),

  fenced("a visibility of 0 hands a message over and hides it from nobody", async (bench) => {
    await bench.mailbox.send("work");
    const first = await bench.take({ visibilityTimeoutMs: 0 });
    const second = await bench.take();
    assertEquals(second.deliveryCount, 2);
    await refused("ReceiptHandleExpiredError", () => first.acknowledge());
    await second.acknowledge();
  }),

  holds("a batch with a visibility of 0 has no message twice", async (bench) => {
    await bench.mailbox.sendMany([1, 2, 3]);
    const batch = await bench.mailbox.receive({ maxMessages: 10, visibilityTimeoutMs: 0 });
    assertEquals(batch.map(({ body }) => body).sort(), [1, 2, 3]);
  }),
];
