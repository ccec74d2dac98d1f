import { assertEquals } from "@std/assert";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("count, peek and purge");
const counted = topic("count, peek and purge", { requires: ["exactCount"] });
const peeked = topic("count, peek and purge", { needs: ["peek"] });

/** Looking at what is there, and clearing it away. */
export const housekeeping: readonly MailboxCase[] = [
  counted("the count is of all messages, whatever their state", async (bench) => {
    const { mailbox } = bench;
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second, third] = await mailbox.receive({ maxMessages: 3 });
    assertEquals(await mailbox.approximateCount(), 4, "in flight");
    await first!.nack({ delayMs: bench.ms(100) });
    await second!.release();
    assertEquals(await mailbox.approximateCount(), 4, "given back");
    await third!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 3, "done");
  }),

  peeked("a look shows the messages and takes none", async (bench) => {
    const { mailbox } = bench;
    assertEquals(await mailbox.peek(10), []);
    const ids = await mailbox.sendMany(["a", "b", "c"]);
    const taken = await bench.take();
    const seen = await mailbox.peek(10);
    assertEquals(seen.map(({ id }) => id).sort(), ids.toSorted(), "taken or not");
    const { id, body, deliveryCount, enqueuedAt, headers } = taken;
    const shown = { id, body, deliveryCount, enqueuedAt, headers };
    assertEquals(seen.find((it) => it.id === id), shown);
    await taken.acknowledge();
    const rest = await mailbox.receive({ maxMessages: 10 });
    assertEquals(rest.map(({ deliveryCount }) => deliveryCount), [1, 1], "no attempt was spent");
  }),

  topic("count, peek and purge", { requires: ["fifo"], needs: ["peek"] })(
    "a look shows the oldest first, and as many as asked for",
    async (bench) => {
      await bench.mailbox.sendMany([1, 2, 3, 4]);
      const first = await bench.take();
      assertEquals((await bench.mailbox.peek(2)).map(({ body }) => body), [1, 2]);
      await first.release();
      assertEquals((await bench.mailbox.peek(3)).map(({ body }) => body), [1, 2, 3]);
    },
  ),

  topic("count, peek and purge", { needs: ["peek", "sendRaw"] })(
    "a look shows the text of what cannot be read",
    async (bench) => {
      await bench.sendRaw("{ this is no JSON");
      assertEquals((await bench.mailbox.peek(1))[0]?.body, "{ this is no JSON");
    },
  ),

  holds("a purge deletes all messages and tells how many", async (bench) => {
    const { mailbox } = bench;
    assertEquals(await mailbox.purge(), 0);
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second] = await mailbox.receive({ maxMessages: 2 });
    await first!.nack({ delayMs: bench.ms(3) });
    assertEquals(await mailbox.purge(), 4);
    assertEquals(await mailbox.approximateCount(), 0);
    await bench.pass(3);
    await bench.hidden();
    assertEquals(second!.finalized, false);
    await mailbox.send("afterwards");
    assertEquals(await bench.drain(), ["afterwards"]);
  }),

  topic("count, peek and purge", { requires: ["fencedAck"] })(
    "a purge makes the receipts of what is in flight stale",
    async (bench) => {
      const { mailbox } = bench;
      await mailbox.sendMany([1, 2]);
      const [first, second] = await mailbox.receive({ maxMessages: 2 });
      await mailbox.purge();
      await refused("ReceiptHandleExpiredError", () => first!.acknowledge());
      await refused("ReceiptHandleExpiredError", () => first!.extendVisibility(bench.ms(100)));
      await refused("ReceiptHandleExpiredError", () => second!.release());
      await refused("ReceiptHandleExpiredError", () => second!.nack());
      await refused("ReceiptHandleExpiredError", () => second!.saveCheckpoint("late"));
      assertEquals(await mailbox.approximateCount(), 0, "nothing came back");
    },
  ),
];
