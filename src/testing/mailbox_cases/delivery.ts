import { assert, assertEquals } from "@std/assert";
import { type MailboxCase, topic } from "./mailbox_case.ts";

const holds = topic("delivery");
const inOrder = topic("delivery", { requires: ["fifo"] });
const leased = topic("delivery", { requires: ["perReceiveVisibility"] });
const shared = topic("delivery", { needs: ["sibling"] });

const BODIES: readonly unknown[] = [
  "",
  "text with 'quotes', \"more\", \\ and \u0000\n\t",
  "ünïcödé 漢字 🍵",
  0,
  -1.5e-9,
  true,
  false,
  null,
  [],
  {},
  { nested: [{ deep: [null, 1, "two"] }], "": "empty key" },
  Array.from({ length: 1_000 }, (_, i) => i),
];

/** A message is sent, delivered, and deleted when it is acknowledged. */
export const delivery: readonly MailboxCase[] = [
  holds("a sent message is received, and deleted when it is acknowledged", async (setup) => {
    const { mailbox } = setup;
    const { id } = await mailbox.send({ item: "tea" });
    const message = await setup.receiveOne();
    assertEquals(message.id, id);
    assertEquals(message.body, { item: "tea" });
    assertEquals(message.deliveryCount, 1);
    assertEquals(message.replyTo, undefined);
    assertEquals(message.finalized, false);
    await message.acknowledge();
    assertEquals(message.finalized, true);
    assertEquals(await mailbox.approximateCount(), 0);
    await setup.assertNoneVisible();
  }),

  holds("an empty mailbox returns [] at once", async (setup) => {
    assertEquals(await setup.mailbox.receive(), []);
    assertEquals(await setup.mailbox.receive({ maxMessages: 10 }), []);
  }),

  holds("a body is received as it was sent", async (setup) => {
    for (const body of BODIES) {
      await setup.mailbox.send(body);
      assertEquals(await setup.receiveAndAcknowledge(), [body]);
    }
  }),

  holds("send returns the unique id of each message", async (setup) => {
    const { mailbox } = setup;
    const sent = [await mailbox.send(0), ...await mailbox.sendMany([1, 2, 3])];
    const ids = sent.map(({ id }) => id);
    assertEquals(new Set(ids).size, 4);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id, body }) => ids.indexOf(id) === body), [
      true,
      true,
      true,
      true,
    ]);
  }),

  holds("every delivery of a message has the time at which it was sent", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("early");
    const first = await setup.receiveOne();
    const { enqueuedAt } = first;
    assert(Number.isFinite(enqueuedAt) && enqueuedAt > 0, `${enqueuedAt} is a time`);
    await setup.pass(1);
    await first.nack();
    const again = await setup.receiveOne();
    assertEquals(again.enqueuedAt, enqueuedAt);
    await mailbox.send("late");
    const late = await setup.receiveOne();
    assert(late.enqueuedAt > enqueuedAt, "a later message has a later time");
  }),

  holds("receive returns at most maxMessages messages", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany([1, 2, 3, 4, 5, 6]);
    assertEquals((await mailbox.receive()).length, 1, "one by default");
    assertEquals((await mailbox.receive({ maxMessages: 3 })).length, 3);
    assertEquals((await mailbox.receive({ maxMessages: 100 })).length, 2, "all visible messages");
  }),

  holds("a thousand messages can be sent in one call and are received once each", async (setup) => {
    const bodies = Array.from({ length: 1_000 }, (_, i) => i);
    await setup.mailbox.sendMany(bodies);
    const received: unknown[] = [];
    // A receive of NATS ends after a few milliseconds: a slow server needs several.
    while (received.length < 1_000) {
      const messages = await setup.mailbox.receive({ maxMessages: 1_000 });
      assert(messages.length > 0, `a receive returns none after ${received.length}`);
      received.push(...messages.map(({ body }) => body));
    }
    assertEquals(new Set(received).size, 1_000);
  }),

  inOrder("a thousand messages can be received in one call, in order", async (setup) => {
    const bodies = Array.from({ length: 1_000 }, (_, i) => i);
    await setup.mailbox.sendMany(bodies);
    const received = await setup.mailbox.receive({ maxMessages: 1_000 });
    assertEquals(received.map(({ body }) => body), bodies);
  }),

  inOrder("messages are received in the order in which they were sent", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send(0);
    await mailbox.sendMany([1, 2, 3, 4]);
    await mailbox.send(5);
    assertEquals(await setup.receiveAndAcknowledge(1), [0]);
    assertEquals(await setup.receiveAndAcknowledge(3), [1, 2, 3]);
    await mailbox.send(6);
    assertEquals(await setup.receiveAndAcknowledge(), [4, 5, 6]);
  }),

  leased("a message that is not acknowledged is delivered again", async (setup) => {
    await setup.mailbox.send("work");
    for (let delivery = 1; delivery <= 4; delivery++) {
      const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
      assertEquals([message.body, message.deliveryCount], ["work", delivery]);
      await setup.pass(1);
    }
    assertEquals(await setup.mailbox.approximateCount(), 1);
  }),

  shared("a message that one connection sends, another receives once", async (setup) => {
    const sibling = await setup.sibling();
    const { id } = await setup.mailbox.send("shared", { replyTo: "replies" });
    const message = await setup.receiveOne({}, sibling);
    assertEquals([message.id, message.body, message.replyTo], [id, "shared", "replies"]);
    await setup.assertNoneVisible();
    await message.acknowledge();
    assertEquals(await setup.mailbox.approximateCount(), 0);
  }),
];
