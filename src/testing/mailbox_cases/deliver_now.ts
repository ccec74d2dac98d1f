import { assertEquals } from "@std/assert";
import { invalid, type MailboxCase, topic } from "./mailbox_case.ts";

const holds = topic("deliver now", { requires: ["lookup", "delay"] });
const keyed = topic("deliver now", { requires: ["lookup", "delay", "keys"] });

/** A delayed message is delivered before its time. */
export const deliverNow: readonly MailboxCase[] = [
  holds("deliverNow delivers a message that was sent with a delay", async (setup) => {
    const { mailbox } = setup;
    const { id } = await mailbox.send("later", { delayMs: setup.ms(1_000) });
    const { id: chosen } = await mailbox.send("chosen", {
      delayMs: setup.ms(1_000),
      id: "order 7",
    });
    await setup.assertNoneVisible();
    for (const [delayed, body] of [[id, "later"], [chosen, "chosen"]] as const) {
      assertEquals(await mailbox.deliverNow(delayed), true);
      assertEquals((await mailbox.get(delayed))?.state, "waiting");
      const message = await setup.receiveOne();
      assertEquals([message.body, message.deliveryCount], [body, 1]);
      await message.acknowledge();
    }
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  holds(
    "deliverNow delivers a message that waits for its retry, as the same attempt",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.sendMany(["first", "second"]);
      const failed = await setup.receiveOne();
      await failed.saveCheckpoint({ step: 1 });
      await failed.nack({ delayMs: setup.ms(1_000) });
      assertEquals(await mailbox.deliverNow(failed.id), true);
      const messages = await mailbox.receive({ maxMessages: 10 });
      const retried = messages.find(({ id }) => id === failed.id)!;
      assertEquals([retried.deliveryCount, retried.checkpoint], [2, { step: 1 }]);
      if (mailbox.capabilities.leaseExpiries) assertEquals(retried.leaseExpiries, 0);
      if (mailbox.capabilities.fifo) {
        assertEquals(messages.map(({ body }) => body), ["first", "second"], "at its old place");
      }
      await retried.acknowledge();
    },
  ),

  holds("deliverNow changes no message that is not delayed", async (setup) => {
    const { mailbox } = setup;
    const { id: waiting } = await mailbox.send("waiting");
    assertEquals(await mailbox.deliverNow("unknown"), false);
    assertEquals(await mailbox.deliverNow(waiting), false);
    const held = await setup.receiveOne();
    assertEquals(await mailbox.deliverNow(held.id), false, "in flight");
    await setup.assertNoneVisible();
    await held.nack({ delayMs: setup.ms(1_000) });
    assertEquals(await mailbox.deliverNow(held.id), true);
    assertEquals(await mailbox.deliverNow(held.id), false, "it is visible already");
    await setup.receiveAndAcknowledge();
    assertEquals(await mailbox.deliverNow(held.id), false, "it is gone");
    await invalid(() => mailbox.deliverNow(7 as unknown as string));
  }),

  topic("deliver now", { requires: ["lookup", "delay", "exactStats"] })(
    "the counts follow deliverNow",
    async (setup) => {
      const { mailbox } = setup;
      const sent = await mailbox.sendMany([1, 2, 3], { delayMs: setup.ms(1_000) });
      await mailbox.deliverNow(sent[1]!.id);
      const { waiting, delayed, inFlight } = await mailbox.stats();
      assertEquals([waiting, delayed, inFlight], [1, 2, 0]);
      assertEquals(await mailbox.cancel(sent[1]!.id), true);
      assertEquals(await mailbox.approximateCount(), 2);
    },
  ),

  holds("deliverNow wakes a receive that waits", async (setup) => {
    const { id } = await setup.mailbox.send("later", { delayMs: setup.ms(900) });
    const { received } = await setup.waiting();
    await setup.mailbox.deliverNow(id);
    assertEquals((await setup.soon(received)).map(({ body }) => body), ["later"]);
  }),

  topic("deliver now", { requires: ["lookup", "delay"], needs: ["sibling"] })(
    "deliverNow wakes a receive of another process",
    async (setup) => {
      const sibling = await setup.sibling();
      const { id } = await setup.mailbox.send("later", { delayMs: setup.ms(900) });
      const { received } = await setup.waiting({}, sibling);
      await setup.mailbox.deliverNow(id);
      assertEquals((await setup.soon(received)).map(({ body }) => body), ["later"]);
    },
  ),

  keyed("a retry that is delivered now is the next message of its key", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany(["a1", "a2"], () => ({ key: "a" }));
    const failed = await setup.receiveOne();
    await failed.nack({ delayMs: setup.ms(1_000) });
    await setup.assertNoneVisible();
    assertEquals(await mailbox.deliverNow(failed.id), true);
    const retried = await setup.receiveOne();
    assertEquals([retried.body, retried.deliveryCount], ["a1", 2]);
    await setup.assertNoneVisible();
    await retried.acknowledge();
    assertEquals(await setup.receiveAndAcknowledge(), ["a2"]);
  }),

  keyed("a delayed message that is delivered now waits behind those of its key", async (setup) => {
    const { mailbox } = setup;
    const { id } = await mailbox.send("delayed", { key: "a", delayMs: setup.ms(1_000) });
    await mailbox.send("first", { key: "a" });
    const first = await setup.receiveOne();
    await mailbox.send("early", { key: "a", delayMs: setup.ms(2) });
    await setup.pass(2.5);
    assertEquals(await mailbox.deliverNow(id), true);
    assertEquals((await mailbox.get(id))?.state, "waiting");
    assertEquals(await mailbox.deliverNow(id), false);
    await mailbox.send("last", { key: "a" });
    await setup.assertNoneVisible();
    await first.acknowledge();
    for (const body of ["early", "delayed", "last"]) {
      assertEquals(await setup.receiveAndAcknowledge(), [body]);
    }
    const { id: alone } = await mailbox.send("alone", { key: "a", delayMs: setup.ms(1_000) });
    assertEquals(await mailbox.deliverNow(alone), true);
    assertEquals(await setup.receiveAndAcknowledge(), ["alone"]);
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("deliver now", { requires: ["lookup", "delay", "priorities"] })(
    "a message that is delivered now keeps its priority",
    async (setup) => {
      const { mailbox } = setup;
      const { id } = await mailbox.send("high", { priority: 5, delayMs: setup.ms(1_000) });
      await mailbox.sendMany(["low", "higher"], (body) => ({ priority: body === "low" ? 0 : 9 }));
      await mailbox.deliverNow(id);
      assertEquals(await setup.receiveAndAcknowledge(), ["higher", "high", "low"]);
    },
  ),

  topic("deliver now", { requires: ["lookup", "delay", "pause"] })(
    "a paused mailbox does not deliver a message that is to be delivered now",
    async (setup) => {
      const { mailbox } = setup;
      const { id } = await mailbox.send("later", { delayMs: setup.ms(1_000) });
      await mailbox.pause();
      assertEquals(await mailbox.deliverNow(id), true);
      await setup.assertNoneVisible();
      await mailbox.resume();
      assertEquals(await setup.receiveAndAcknowledge(), ["later"]);
    },
  ),

  topic("deliver now", { requires: ["lookup", "delay", "rateLimit"] })(
    "a rate limit holds for messages that are delivered now",
    async (setup) => {
      const { mailbox } = setup;
      const sent = await mailbox.sendMany([1, 2, 3], { delayMs: setup.ms(1_000) });
      await mailbox.rateLimit({ max: 1, perMs: setup.ms(500) });
      for (const { id } of sent) assertEquals(await mailbox.deliverNow(id), true);
      assertEquals((await mailbox.receive({ maxMessages: 10 })).length, 1);
      await setup.assertNoneVisible();
    },
  ),
];
