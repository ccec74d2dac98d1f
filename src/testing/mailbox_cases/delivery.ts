import { assert, assertEquals } from "@std/assert";
import { topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

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

/** A message goes in, is handed over, and is gone once it is done. */
export const delivery: readonly MailboxCase[] = [
  holds("what was sent is received, and gone once acknowledged", async (bench) => {
    const { mailbox } = bench;
    const id = await mailbox.send({ item: "tea" });
    const message = await bench.take();
    assertEquals(message.id, id);
    assertEquals(message.body, { item: "tea" });
    assertEquals(message.deliveryCount, 1);
    assertEquals(message.replyTo, undefined);
    assertEquals(message.finalized, false);
    await message.acknowledge();
    assertEquals(message.finalized, true);
    assertEquals(await mailbox.approximateCount(), 0);
    await bench.hidden();
  }),

  holds("an empty mailbox answers [] at once", async (bench) => {
    assertEquals(await bench.mailbox.receive(), []);
    assertEquals(await bench.mailbox.receive({ maxMessages: 10 }), []);
  }),

  holds("bodies come back as they were sent", async (bench) => {
    for (const body of BODIES) {
      await bench.mailbox.send(body);
      assertEquals(await bench.drain(), [body]);
    }
  }),

  holds("every message has an id of its own, which sending tells", async (bench) => {
    const { mailbox } = bench;
    const ids = [await mailbox.send(0), ...await mailbox.sendMany([1, 2, 3])];
    assertEquals(new Set(ids).size, 4);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id, body }) => ids.indexOf(id) === body), [
      true,
      true,
      true,
      true,
    ]);
  }),

  holds("a message tells when it was sent, also when it comes again", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("early");
    const first = await bench.take();
    const { enqueuedAt } = first;
    assert(Number.isFinite(enqueuedAt) && enqueuedAt > 0, `${enqueuedAt} is a time`);
    await bench.pass(1);
    await first.nack();
    const again = await bench.take();
    assertEquals(again.enqueuedAt, enqueuedAt);
    await mailbox.send("late");
    const late = await bench.take();
    assert(late.enqueuedAt > enqueuedAt, "a later message has a later time");
  }),

  holds("a receive gives as many as it was asked for, and no more", async (bench) => {
    const { mailbox } = bench;
    await mailbox.sendMany([1, 2, 3, 4, 5, 6]);
    assertEquals((await mailbox.receive()).length, 1, "one unless told");
    assertEquals((await mailbox.receive({ maxMessages: 3 })).length, 3);
    assertEquals((await mailbox.receive({ maxMessages: 100 })).length, 2, "what is there");
  }),

  holds("a thousand at once go in and out", async (bench) => {
    const bodies = Array.from({ length: 1_000 }, (_, i) => i);
    await bench.mailbox.sendMany(bodies);
    const received = await bench.mailbox.receive({ maxMessages: 1_000 });
    assertEquals(new Set(received.map(({ body }) => body)).size, 1_000);
  }),

  inOrder("messages come in the order they were sent", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send(0);
    await mailbox.sendMany([1, 2, 3, 4]);
    await mailbox.send(5);
    assertEquals(await bench.drain(1), [0]);
    assertEquals(await bench.drain(3), [1, 2, 3]);
    await mailbox.send(6);
    assertEquals(await bench.drain(), [4, 5, 6]);
  }),

  leased("what is not acknowledged comes again", async (bench) => {
    await bench.mailbox.send("work");
    for (let delivery = 1; delivery <= 4; delivery++) {
      const message = await bench.take({ visibilityTimeoutMs: bench.ms(1) });
      assertEquals([message.body, message.deliveryCount], ["work", delivery]);
      await bench.pass(1);
    }
    assertEquals(await bench.mailbox.approximateCount(), 1);
  }),

  shared("what one sends another receives, once", async (bench) => {
    const sibling = await bench.sibling();
    const id = await bench.mailbox.send("shared", { replyTo: "replies" });
    const message = await bench.take({}, sibling);
    assertEquals([message.id, message.body, message.replyTo], [id, "shared", "replies"]);
    await bench.hidden();
    await message.acknowledge();
    assertEquals(await bench.mailbox.approximateCount(), 0);
  }),
];
