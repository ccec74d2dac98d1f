import { assertEquals } from "@std/assert";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import { topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const delayed = topic("ids and delays", { requires: ["delay"] });
const deduplicated = topic("ids and delays", { requires: ["dedup"] });

/** A sender may choose when a message is seen, and what it is called. */
export const idsAndDelays: readonly MailboxCase[] = [
  delayed("a delayed message is hidden until it is due", async (bench) => {
    const { mailbox } = bench;
    const soon = await mailbox.send("soon", { delayMs: bench.ms(3) });
    await mailbox.sendMany(["late", "late too"], { delayMs: bench.ms(100) });
    await bench.hidden();
    assertEquals(await mailbox.approximateCount(), 3);
    await bench.pass(3);
    const message = await bench.take();
    assertEquals([message.id, message.deliveryCount], [soon, 1]);
    await bench.hidden();
  }),

  delayed("a delayed message holds up nobody", async (bench) => {
    await bench.mailbox.send("late", { delayMs: bench.ms(100) });
    await bench.mailbox.send("now");
    assertEquals(await bench.drain(), ["now"]);
  }),

  topic("ids and delays")("a message has the id its sender chose", async (bench) => {
    const id = "order 7/'ü'";
    assertEquals(await bench.mailbox.send("work", { id }), id);
    assertEquals((await bench.take()).id, id);
  }),

  deduplicated("a message is not stored again while it is there", async (bench) => {
    const { mailbox } = bench;
    const id = "order-7";
    assertEquals(await mailbox.send("first", { id }), id);
    assertEquals(await mailbox.send("again", { id }), id);
    assertEquals(await mailbox.approximateCount(), 1, "while it is ready");
    const message = await bench.take();
    await mailbox.send("again", { id });
    await bench.hidden();
    await message.nack({ delayMs: bench.ms(100) });
    await mailbox.send("again", { id });
    await bench.hidden();
    assertEquals(await mailbox.approximateCount(), 1, "while it is hidden");
    assertEquals(message.body, "first");
  }),

  deduplicated("a sender learns that its message is a duplicate", async (bench) => {
    const { mailbox } = bench;
    const duplicates: string[] = [];
    const onDuplicate = (id: string) => void duplicates.push(id);
    await mailbox.send("first", { id: "order-7", onDuplicate });
    await mailbox.send("another", { id: "order-8", onDuplicate });
    await mailbox.sendMany(["a", "b"], { onDuplicate });
    assertEquals(duplicates, [], "stored messages are no duplicates");
    assertEquals(await mailbox.send("again", { id: "order-7", onDuplicate }), "order-7");
    assertEquals(duplicates, ["order-7"]);
    await bench.drain();
    await mailbox.send("second", { id: "order-7", onDuplicate });
    assertEquals(duplicates, ["order-7"], "its id is free again");
  }),

  deduplicated("an id is free again once its message is acknowledged", async (bench) => {
    const id = "order-7";
    await bench.mailbox.send("first", { id });
    assertEquals(await bench.drain(), ["first"]);
    await bench.mailbox.send("second", { id });
    assertEquals(await bench.drain(), ["second"]);
  }),

  deduplicated("an id is free again after a purge", async (bench) => {
    await bench.mailbox.send("first", { id: "order-7" });
    await bench.mailbox.purge();
    await bench.mailbox.send("second", { id: "order-7" });
    assertEquals(await bench.drain(), ["second"]);
  }),

  topic("ids and delays", { requires: ["dedup"], needs: ["sibling"] })(
    "several senders of one id store one message",
    async (bench) => {
      const sibling = await bench.sibling();
      const senders = [bench.mailbox, sibling, bench.mailbox, sibling];
      const duplicates: string[] = [];
      const onDuplicate = (id: string) => void duplicates.push(id);
      const send = (mailbox: Mailbox<unknown>, i: number) =>
        mailbox.send(i, { id: "order-7", onDuplicate });
      await Promise.all(senders.map(send));
      assertEquals((await bench.drain(10)).length, 1);
      assertEquals(duplicates.length, 3, "three of the four senders learn it");
    },
  ),
];
