import { assertEquals } from "@std/assert";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import { type MailboxCase, topic } from "./mailbox_case.ts";

const delayed = topic("ids and delays", { requires: ["delay"] });
const deduplicated = topic("ids and delays", { requires: ["dedup"] });

/** A sender can choose the id of a message and when it becomes visible. */
export const idsAndDelays: readonly MailboxCase[] = [
  delayed("a delayed message is hidden until it is due", async (setup) => {
    const { mailbox } = setup;
    const { id: soon } = await mailbox.send("soon", { delayMs: setup.ms(3) });
    await mailbox.sendMany(["late", "late too"], { delayMs: setup.ms(100) });
    await setup.assertNoneVisible();
    assertEquals(await mailbox.approximateCount(), 3);
    await setup.pass(3);
    const message = await setup.receiveOne();
    assertEquals([message.id, message.deliveryCount], [soon, 1]);
    await setup.assertNoneVisible();
  }),

  delayed("a delayed message does not delay others", async (setup) => {
    await setup.mailbox.send("late", { delayMs: setup.ms(100) });
    await setup.mailbox.send("now");
    assertEquals(await setup.receiveAndAcknowledge(), ["now"]);
  }),

  topic("ids and delays")("a message has the id that its sender chose", async (setup) => {
    const id = "order 7/'ü'";
    assertEquals((await setup.mailbox.send("work", { id })).id, id);
    assertEquals((await setup.receiveOne()).id, id);
  }),

  deduplicated(
    "a message is not stored while one with the same id is in the mailbox",
    async (setup) => {
      const { mailbox } = setup;
      const id = "order-7";
      assertEquals((await mailbox.send("first", { id })).id, id);
      assertEquals((await mailbox.send("again", { id })).id, id);
      assertEquals(await mailbox.approximateCount(), 1, "while it is ready");
      const message = await setup.receiveOne();
      await mailbox.send("again", { id });
      await setup.assertNoneVisible();
      await message.nack({ delayMs: setup.ms(100) });
      await mailbox.send("again", { id });
      await setup.assertNoneVisible();
      assertEquals(await mailbox.approximateCount(), 1, "while it is hidden");
      assertEquals(message.body, "first");
    },
  ),

  deduplicated("a send returns whether the message was stored", async (setup) => {
    const { mailbox } = setup;
    const id = "order-7";
    assertEquals(await mailbox.send("first", { id }), { id, stored: true });
    assertEquals(await mailbox.send("again", { id }), { id, stored: false });
    const ids = ["order-8", "order-7", "order-9", "order-8"];
    const sent = await mailbox.sendMany(ids, (_, i) => ({ id: ids[i]! }));
    assertEquals(sent.map(({ stored }) => stored), [true, false, true, false]);
    assertEquals(sent.map(({ id }) => id), ids);
    await setup.receiveAndAcknowledge();
    assertEquals(await mailbox.send("second", { id }), { id, stored: true });
  }),

  deduplicated("an id can be used again when its message is acknowledged", async (setup) => {
    const id = "order-7";
    await setup.mailbox.send("first", { id });
    assertEquals(await setup.receiveAndAcknowledge(), ["first"]);
    await setup.mailbox.send("second", { id });
    assertEquals(await setup.receiveAndAcknowledge(), ["second"]);
  }),

  deduplicated("an id can be used again after a purge", async (setup) => {
    await setup.mailbox.send("first", { id: "order-7" });
    await setup.mailbox.purge();
    await setup.mailbox.send("second", { id: "order-7" });
    assertEquals(await setup.receiveAndAcknowledge(), ["second"]);
  }),

  topic("ids and delays", { requires: ["dedup"], needs: ["sibling"] })(
    "concurrent sends with the same id store one message",
    async (setup) => {
      const sibling = await setup.sibling();
      const senders = [setup.mailbox, sibling, setup.mailbox, sibling];
      const send = (mailbox: Mailbox<unknown>, i: number) => mailbox.send(i, { id: "order-7" });
      const sent = await Promise.all(senders.map(send));
      assertEquals((await setup.receiveAndAcknowledge(10)).length, 1);
      assertEquals(sent.filter(({ stored }) => stored).length, 1, "three sends are duplicates");
    },
  ),
];
