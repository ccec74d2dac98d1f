import { assert, assertEquals } from "@std/assert";
import type { Message } from "../../mailbox/mailbox.ts";
import { invalid, type MailboxCase, refused, type Setup, topic } from "./mailbox_case.ts";

const keyed = topic("keys", { requires: ["keys"] });
const prioritized = topic("priorities", { requires: ["priorities"] });

/** Receives what is visible now, up to ten messages. */
async function visible(setup: Setup): Promise<Message<unknown>[]> {
  return await setup.mailbox.receive({ maxMessages: 10, visibilityTimeoutMs: setup.ms(10) });
}

async function visibleBodies(setup: Setup): Promise<unknown[]> {
  return (await visible(setup)).map(({ body }) => body);
}

/** Sends bodies that begin with their key, such as `a1`. */
async function sendKeyed(setup: Setup, ...bodies: readonly string[]): Promise<void> {
  await setup.mailbox.sendMany(bodies, (body) => ({ key: String(body)[0]! }));
}

/** Messages with the same key are delivered one at a time and in order. */
export const keys: readonly MailboxCase[] = [
  keyed("messages with the same key are delivered one at a time and in order", async (setup) => {
    await sendKeyed(setup, "a1", "b1", "a2", "a3", "b2");
    await setup.mailbox.send("free");
    for (const expected of [["a1", "b1", "free"], ["a2", "b2"], ["a3"], []]) {
      const messages = await visible(setup);
      assertEquals(messages.map(({ body }) => body), expected);
      await setup.assertNoneVisible();
      for (const message of messages) await message.acknowledge();
    }
  }),

  topic("keys", { requires: ["keys", "delay"] })(
    "a delayed message blocks no message that is sent with it",
    async (setup) => {
      const delayed = { key: "a", delayMs: setup.ms(100) };
      await setup.mailbox.sendMany(["later", "now"], (body) => {
        return body === "later" ? delayed : { key: "a" };
      });
      assertEquals(await visibleBodies(setup), ["now"]);
    },
  ),

  keyed("a message has the key that its sender chose", async (setup) => {
    const key = "customer 7/'ü'";
    await setup.mailbox.send("work", { key });
    assertEquals((await setup.receiveOne()).key, key);
    await setup.mailbox.send("free");
    assertEquals((await setup.receiveOne()).key, undefined);
  }),

  keyed("a message that waits for its retry blocks its key, and no other", async (setup) => {
    await sendKeyed(setup, "a1", "a2", "b1");
    const [a1, b1] = await visible(setup);
    await a1!.nack({ delayMs: setup.ms(3) });
    await b1!.nack();
    assertEquals(await visibleBodies(setup), ["b1"]);
    await setup.pass(3.5);
    assertEquals(await visibleBodies(setup), ["a1"]);
  }),

  keyed("a released message keeps its place in the order of its key", async (setup) => {
    await sendKeyed(setup, "a1", "a2");
    await (await setup.receiveOne()).release();
    assertEquals(await visibleBodies(setup), ["a1"]);
  }),

  keyed("a message whose lease expired blocks its key until it is settled", async (setup) => {
    await sendKeyed(setup, "a1", "a2");
    const stale = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(2) });
    await setup.pass(2.5);
    await refused("ReceiptHandleExpiredError", () => stale.acknowledge());
    const again = await setup.receiveOne();
    assertEquals([again.body, again.deliveryCount], ["a1", 2]);
    await setup.assertNoneVisible();
    await again.acknowledge();
    assertEquals(await visibleBodies(setup), ["a2"]);
  }),

  topic("keys", { requires: ["keys"], needs: ["deadLetters"] })(
    "dead-lettering a message unblocks its key",
    async (setup) => {
      await sendKeyed(setup, "a1", "a2");
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
      assertEquals(await visibleBodies(setup), ["a2"]);
      const letter = await setup.receiveOne({}, setup.mailbox.deadLetters);
      assertEquals(letter.body.key, "a");
    },
  ),

  topic("keys", { requires: ["keys", "delay"] })(
    "a delayed message joins the order of its key when it is due",
    async (setup) => {
      await setup.mailbox.send("a-late", { key: "a", delayMs: setup.ms(3) });
      await sendKeyed(setup, "a1", "a2");
      const first = await setup.receiveOne();
      assertEquals(first.body, "a1");
      await setup.pass(3.5);
      await setup.assertNoneVisible();
      await first.acknowledge();
      const second = await setup.receiveOne();
      await second.acknowledge();
      const third = await setup.receiveOne();
      assertEquals([second.body, third.body].sort(), ["a-late", "a2"]);
    },
  ),

  topic("keys", { requires: ["keys"], needs: ["sibling"] })(
    "a waiting receive of another process gets the next message of a key",
    async (setup) => {
      const sibling = await setup.sibling();
      await sendKeyed(setup, "a1");
      const first = await setup.receiveOne();
      await sendKeyed(setup, "a2");
      const { received } = await setup.waiting({}, sibling);
      await first.acknowledge();
      const [next] = await setup.soon(received);
      assertEquals(next?.body, "a2");
    },
  ),

  topic("keys", { requires: ["keys"], needs: ["acknowledgeMany"] })(
    "acknowledging many messages unblocks all of their keys",
    async (setup) => {
      await sendKeyed(setup, "a1", "b1", "c1", "a2", "b2", "c2");
      await setup.mailbox.acknowledgeMany(await visible(setup));
      assertEquals(await visibleBodies(setup), ["a2", "b2", "c2"]);
    },
  ),

  topic("keys", { requires: ["keys", "lookup"] })(
    "cancelling the first message of a key unblocks it; cancelling a later one does not",
    async (setup) => {
      const sent = await setup.mailbox.sendMany([1, 2, 3], () => ({ key: "a" }));
      assert(await setup.mailbox.cancel(sent[1]!.id));
      const first = await setup.receiveOne();
      await setup.assertNoneVisible();
      assert(await setup.mailbox.cancel(first.id));
      assertEquals(await visibleBodies(setup), [3]);
    },
  ),

  keyed("a purge leaves no key blocked", async (setup) => {
    await sendKeyed(setup, "a1", "a2");
    await setup.receiveOne();
    await setup.mailbox.purge();
    await sendKeyed(setup, "a3");
    assertEquals(await visibleBodies(setup), ["a3"]);
  }),

  topic("keys", { requires: ["keys", "dedup"] })(
    "a duplicate does not block its key",
    async (setup) => {
      await setup.mailbox.send("b1", { id: "same", key: "b" });
      await setup.mailbox.send("again", { id: "same", key: "a" });
      await sendKeyed(setup, "a1");
      assertEquals(await visibleBodies(setup), ["b1", "a1"]);
    },
  ),

  keyed("an invalid key is refused, and nothing is stored", async ({ mailbox }) => {
    for (const key of ["", "a\0b", "\ud800", 7 as unknown as string]) {
      await invalid(() => mailbox.send("work", { key }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
  }),
];

/** Messages with a higher priority are received first. */
export const priorities: readonly MailboxCase[] = [
  prioritized(
    "messages are received by priority, and in order within a priority",
    async (setup) => {
      const sent = [["a", 0], ["b", 5], ["c", 9], ["d", 5], ["e", 0], ["f", 1]] as const;
      for (const [body, priority] of sent) await setup.mailbox.send(body, { priority });
      const first = await setup.mailbox.receive({ maxMessages: 2 });
      assertEquals(first.map(({ body }) => body), ["c", "b"]);
      assertEquals(first.map(({ priority }) => priority), [9, 5]);
      assertEquals(await visibleBodies(setup), ["d", "f", "a", "e"]);
    },
  ),

  prioritized("a message with a priority passes messages that wait longer", async (setup) => {
    await setup.mailbox.sendMany([1, 2, 3]);
    await setup.mailbox.send("urgent", { priority: 9 });
    assertEquals(await visibleBodies(setup), ["urgent", 1, 2, 3]);
  }),

  prioritized("a message keeps its priority when it returns", async (setup) => {
    await setup.mailbox.send("low");
    await setup.mailbox.send("high", { priority: 3 });
    await setup.mailbox.send("highest", { priority: 7 });
    const [highest, high] = await visible(setup);
    await high!.nack({ delayMs: setup.ms(1) });
    await highest!.release();
    await setup.pass(10.5); // also the lease of the third has expired
    assertEquals(await visibleBodies(setup), ["highest", "high", "low"]);
  }),

  topic("priorities", { requires: ["priorities", "delay"] })(
    "a delayed message has its priority when it is due",
    async (setup) => {
      await setup.mailbox.send("low");
      await setup.mailbox.send("high", { priority: 3, delayMs: setup.ms(2) });
      await setup.pass(2.5);
      assertEquals(await visibleBodies(setup), ["high", "low"]);
    },
  ),

  topic("priorities", { requires: ["priorities", "keys"] })(
    "the order of a key comes before priority",
    async (setup) => {
      await setup.mailbox.send("a1", { key: "a" });
      await setup.mailbox.send("a2", { key: "a", priority: 9 });
      await setup.mailbox.send("b1", { key: "b", priority: 1 });
      const first = await visible(setup);
      assertEquals(first.map(({ body }) => body), ["b1", "a1"]);
      for (const message of first) await message.acknowledge();
      assertEquals(await visibleBodies(setup), ["a2"]);
    },
  ),

  prioritized("an invalid priority is refused, and nothing is stored", async ({ mailbox }) => {
    for (const priority of [-1, 10, 1.5, NaN, "5" as unknown as number]) {
      await invalid(() => mailbox.send("work", { priority }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
  }),
];
