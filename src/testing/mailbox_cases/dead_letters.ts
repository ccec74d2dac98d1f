import { assert, assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { DeadLetter } from "../../mailbox/mailbox.ts";
import { type MailboxCase, type Setup, topic } from "./mailbox_case.ts";

const holds = topic("dead letters", { needs: ["deadLetters"] });
const unreadable = topic("dead letters", { needs: ["deadLetters", "sendRaw"] });

/** A message that failed for good is kept with all its fields. */
export const deadLetters: readonly MailboxCase[] = [
  holds("a dead-lettered message is in the dead letters and nowhere else", async (setup) => {
    const { mailbox } = setup;
    const { id } = await mailbox.send({ n: 1 }, { replyTo: "replies" });
    await (await setup.receiveOne()).nack();
    const message = await setup.receiveOne();
    await message.deadLetter({ reason: "handler_error", error: "TypeError: no" });
    assertEquals(message.finalized, true);
    assertEquals(await mailbox.approximateCount(), 0);
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);

    const { deadAt, ...letter } = await receiveLetter(setup);
    assert(deadAt >= message.enqueuedAt, `${deadAt} is when it was dead-lettered`);
    assertEquals(letter, {
      id,
      body: { n: 1 },
      headers: {},
      reason: "handler_error",
      error: "TypeError: no",
      deliveryCount: 2,
      enqueuedAt: message.enqueuedAt,
      replyTo: "replies",
    });
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
  }),

  holds("a dead letter has the last checkpoint", async (setup) => {
    await setup.mailbox.sendMany(["a", "b"]);
    const [early, late] = await setup.mailbox.receive({ maxMessages: 2 });
    await early!.saveCheckpoint({ step: 1 });
    await early!.nack();
    await (await setup.receiveOne()).deadLetter({ reason: "test" });
    assertEquals((await receiveLetter(setup)).checkpoint, { step: 1 }, "of an earlier delivery");
    await late!.saveCheckpoint({ step: 2 });
    await late!.deadLetter({ reason: "test" });
    assertEquals((await receiveLetter(setup)).checkpoint, { step: 2 }, "of this delivery");
  }),

  holds("two dead-lettered messages with the same id are two dead letters", async (setup) => {
    const { deadLetters } = setup.mailbox;
    for (const body of ["first", "second"]) {
      await setup.mailbox.send(body, { id: "same" });
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
    }
    const letters = await deadLetters.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => body.body).sort(), ["first", "second"]);
  }),

  holds("dead letters can be received, nacked and acknowledged", async (setup) => {
    const { deadLetters } = setup.mailbox;
    for (const body of [1, 2]) {
      await setup.mailbox.send(body);
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
    }
    const first = await setup.receiveOne({}, deadLetters);
    await first.nack({ delayMs: setup.ms(100) });
    const second = await setup.receiveOne({}, deadLetters);
    await second.acknowledge();
    assertEquals(await deadLetters.approximateCount(), 1);
    assertEquals([first.body.body, second.body.body].sort(), [1, 2]);
  }),

  holds("a purge does not delete the dead letters", async (setup) => {
    await setup.mailbox.sendMany([1, 2]);
    await (await setup.receiveOne()).deadLetter({ reason: "test" });
    assertEquals(await setup.mailbox.purge(), 1);
    assertEquals(await setup.mailbox.deadLetters.approximateCount(), 1);
  }),

  unreadable(
    "the other messages of a batch with an unreadable body are received",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("before");
      await setup.sendRaw("{ not JSON");
      await mailbox.send("after");
      assertEquals((await setup.receiveAndAcknowledge(10)).sort(), ["after", "before"]);
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),

  unreadable("an unreadable body is dead-lettered unchanged", async (setup) => {
    const { mailbox } = setup;
    await setup.sendRaw("{ not JSON");
    assertEquals(await mailbox.receive(), []);
    const letter = await receiveLetter(setup);
    assertEquals(letter.raw, "{ not JSON");
    assertEquals(letter.reason, "unreadable");
    assertEquals("body" in letter, false);
    assertEquals(letter.deliveryCount, 1);
    assert(letter.error !== undefined && letter.error.length > 0, "the error says what is wrong");
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  unreadable("a receive waits on after an unreadable body", async (setup) => {
    const { received } = await setup.waiting();
    await setup.sendRaw("{ not JSON");
    await setup.mailbox.send("good");
    assertEquals((await setup.soon(received)).map(({ body }) => body), ["good"]);
  }),

  topic("dead letters", { needs: ["deadLetters", "maxBodyBytes"] })(
    "a message with the largest body can be dead-lettered and redriven",
    async (setup) => {
      const body = '"'.repeat((setup.maxBodyBytes - 2) / 2); // JSON has two bytes for each quote
      await setup.mailbox.send(body);
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
      assertEquals(await redrive(setup.mailbox), 1);
      assertEquals((await setup.receiveOne()).body, body);
    },
  ),

  holds("a redrive sends messages with their old ids", async (setup) => {
    const { mailbox } = setup;
    const ids = (await mailbox.sendMany([1, 2, 3], { replyTo: "replies" })).map(({ id }) => id);
    await deadLetter(setup, 3, "test");
    assertEquals(await redrive(mailbox), 3);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id }) => id).sort(), ids.toSorted());
    for (const { id, body, deliveryCount, replyTo } of messages) {
      assertEquals([ids.indexOf(id) + 1, deliveryCount, replyTo], [body, 1, "replies"]);
    }
    assertEquals(await redrive(mailbox), 0);
  }),

  holds(
    "a redrive keeps both a dead letter and a waiting message with the same id",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("failed", { id: "order-7" });
      await deadLetter(setup, 1, "test");
      await mailbox.send("waiting", { id: "order-7" });
      assertEquals(await redrive(mailbox), 1);
      assertEquals(await mailbox.deadLetters.approximateCount(), 0);
      assertEquals((await setup.receiveAndAcknowledge()).sort(), ["failed", "waiting"]);
    },
  ),

  holds("a redrive sends two messages for two dead letters with the same id", async (setup) => {
    const { mailbox } = setup;
    for (const body of ["first", "second"]) {
      await mailbox.send(body, { id: "order-7" });
      await deadLetter(setup, 1, "test");
    }
    assertEquals(await redrive(mailbox), 2);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
    assertEquals((await setup.receiveAndAcknowledge()).sort(), ["first", "second"]);
  }),

  holds("a redrive restores the checkpoint", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("work");
    const message = await setup.receiveOne();
    await message.saveCheckpoint({ step: 2 });
    await message.deadLetter({ reason: "test" });
    assertEquals(await redrive(mailbox), 1);
    const { checkpoint, deliveryCount } = await setup.receiveOne();
    assertEquals([checkpoint, deliveryCount], [{ step: 2 }, 1]);
  }),

  holds("a redrive with a filter leaves the other dead letters", async (setup) => {
    const { mailbox } = setup;
    for (const [body, reason] of [[1, "schema"], [2, "timeout"], [3, "schema"]] as const) {
      await mailbox.send(body);
      await deadLetter(setup, 1, reason);
    }
    assertEquals(await redrive(mailbox, { only: ({ reason }) => reason === "timeout" }), 1);
    assertEquals(await setup.receiveAndAcknowledge(), [2]);
    const stayed = await mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(stayed.map(({ body }) => (body as DeadLetter<unknown>).body).sort(), [1, 3]);
  }),

  holds("a redrive sends at most maxMessages messages", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany([1, 2, 3]);
    await deadLetter(setup, 3, "test");
    assertEquals(await redrive(mailbox, { maxMessages: 2 }), 2);
    assertEquals(await mailbox.approximateCount(), 2);
    assertEquals((await mailbox.deadLetters.receive({ maxMessages: 10 })).length, 1);
  }),

  unreadable("a redrive leaves dead letters with an unreadable body", async (setup) => {
    await setup.sendRaw("{ not JSON");
    await setup.mailbox.receive();
    await setup.mailbox.send("good");
    await deadLetter(setup, 1, "test");
    assertEquals(await redrive(setup.mailbox), 1);
    assertEquals((await receiveLetter(setup)).raw, "{ not JSON");
  }),
];

/** Receives messages and dead-letters them. */
export async function deadLetter(setup: Setup, count: number, reason: string): Promise<void> {
  const messages = await setup.mailbox.receive({ maxMessages: count });
  assertEquals(messages.length, count);
  for (const message of messages) await message.deadLetter({ reason });
}

async function receiveLetter(setup: Setup): Promise<DeadLetter<unknown>> {
  const message = await setup.receiveOne({}, setup.mailbox.deadLetters);
  await message.acknowledge();
  return message.body;
}
