import { assertEquals } from "@std/assert";
import { type MailboxCase, refused, topic } from "./mailbox_case.ts";

const holds = topic("count, peek and purge");
const counted = topic("count, peek and purge", { requires: ["exactCount"] });
const peeked = topic("count, peek and purge", { needs: ["peek"] });

/** Messages can be counted, peeked and purged. */
export const countPeekPurge: readonly MailboxCase[] = [
  counted("the count includes messages in flight and delayed messages", async (setup) => {
    const { mailbox } = setup;
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second, third] = await mailbox.receive({ maxMessages: 3 });
    assertEquals(await mailbox.approximateCount(), 4, "in flight");
    await first!.nack({ delayMs: setup.ms(100) });
    await second!.release();
    assertEquals(await mailbox.approximateCount(), 4, "nacked and released");
    await third!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 3, "acknowledged");
  }),

  peeked("peek returns messages and does not receive them", async (setup) => {
    const { mailbox } = setup;
    assertEquals(await mailbox.peek(10), []);
    const ids = (await mailbox.sendMany(["a", "b", "c"])).map(({ id }) => id);
    const received = await setup.receiveOne();
    const seen = await mailbox.peek(10);
    assertEquals(seen.map(({ id }) => id).sort(), ids.toSorted(), "in flight or not");
    const { id, body, deliveryCount, enqueuedAt, headers } = received;
    const expected = { id, body, deliveryCount, enqueuedAt, headers };
    const { state, ...found } = seen.find((it) => it.id === id)!;
    assertEquals(found, expected);
    assertEquals(state ?? "inFlight", "inFlight");
    await received.acknowledge();
    const rest = await mailbox.receive({ maxMessages: 10 });
    assertEquals(
      rest.map(({ deliveryCount }) => deliveryCount),
      [1, 1],
      "peek counts as no attempt",
    );
  }),

  topic("count, peek and purge", { requires: ["fifo"], needs: ["peek"] })(
    "peek returns the oldest messages first, at most as many as requested",
    async (setup) => {
      await setup.mailbox.sendMany([1, 2, 3, 4]);
      const first = await setup.receiveOne();
      assertEquals((await setup.mailbox.peek(2)).map(({ body }) => body), [1, 2]);
      await first.release();
      assertEquals((await setup.mailbox.peek(3)).map(({ body }) => body), [1, 2, 3]);
    },
  ),

  peeked("peek with skip returns the messages after the first ones", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany([1, 2, 3, 4, 5, 6, 7]);
    const [, second, third] = await mailbox.receive({ maxMessages: 3 });
    for (const message of [second, third]) await message?.acknowledge();
    if (mailbox.capabilities.delay) await mailbox.send(8, { delayMs: setup.ms(100) });
    const all = (await mailbox.peek(10)).map(({ body }) => body);
    const pages: unknown[] = [];
    for (let skip = 0; skip < all.length; skip += 3) {
      const page = await mailbox.peek(3, { skip });
      assertEquals(page.length, Math.min(3, all.length - skip));
      pages.push(...page.map(({ body }) => body));
    }
    assertEquals(pages, all, "the pages are in the same order");
    assertEquals(await mailbox.peek(3, { skip: all.length }), []);
    assertEquals(await mailbox.peek(3, { skip: 1_000_000 }), []);
  }),

  topic("count, peek and purge", {
    requires: ["keys", "priorities", "fifo", "delay"],
    needs: ["peek"],
  })(
    "peek with skip counts the messages in the order in which they were sent",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.sendMany([0, 1, 2, 3, 4, 5, 6, 7], (_, i) => ({
        priority: i % 3,
        ...(i % 2 === 1 && { key: "a" }),
        ...(i === 4 && { delayMs: setup.ms(100) }),
      }));
      const [first] = await mailbox.receive();
      await first!.nack({ delayMs: setup.ms(100) });
      for (const skip of [0, 1, 3, 5, 7]) {
        const page = (await mailbox.peek(3, { skip })).map(({ body }) => body);
        assertEquals(page, [0, 1, 2, 3, 4, 5, 6, 7].slice(skip, skip + 3));
      }
    },
  ),

  topic("count, peek and purge", { needs: ["peek", "sendRaw"] })(
    "peek returns the stored text of an unreadable body",
    async (setup) => {
      await setup.sendRaw("{ not JSON");
      assertEquals((await setup.mailbox.peek(1))[0]?.body, "{ not JSON");
    },
  ),

  holds("purge deletes all messages and returns their number", async (setup) => {
    const { mailbox } = setup;
    assertEquals(await mailbox.purge(), 0);
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second] = await mailbox.receive({ maxMessages: 2 });
    await first!.nack({ delayMs: setup.ms(3) });
    assertEquals(await mailbox.purge(), 4);
    assertEquals(await mailbox.approximateCount(), 0);
    await setup.pass(3);
    await setup.assertNoneVisible();
    assertEquals(second!.finalized, false);
    await mailbox.send("afterwards");
    assertEquals(await setup.receiveAndAcknowledge(), ["afterwards"]);
  }),

  topic("count, peek and purge", { requires: ["fencedAck"] })(
    "a purge invalidates the receipt handles of messages in flight",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.sendMany([1, 2]);
      const [first, second] = await mailbox.receive({ maxMessages: 2 });
      await mailbox.purge();
      await refused("ReceiptHandleExpiredError", () => first!.acknowledge());
      await refused("ReceiptHandleExpiredError", () => first!.extendVisibility(setup.ms(100)));
      await refused("ReceiptHandleExpiredError", () => second!.release());
      await refused("ReceiptHandleExpiredError", () => second!.nack());
      await refused("ReceiptHandleExpiredError", () => second!.saveCheckpoint("late"));
      assertEquals(await mailbox.approximateCount(), 0, "nothing is restored");
    },
  ),
];
