import { assert, assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { DeadLetter } from "../../mailbox/mailbox.ts";
import { type Bench, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("dead letters", { needs: ["deadLetters"] });
const unreadable = topic("dead letters", { needs: ["deadLetters", "sendRaw"] });

/** What failed for good is kept, with everything that is known of it. */
export const deadLetters: readonly MailboxCase[] = [
  holds("a buried message is with the dead letters and nowhere else", async (bench) => {
    const { mailbox } = bench;
    const id = await mailbox.send({ n: 1 }, { replyTo: "replies" });
    await (await bench.take()).nack();
    const message = await bench.take();
    await message.deadLetter({ reason: "handler_error", error: "TypeError: no" });
    assertEquals(message.finalized, true);
    assertEquals(await mailbox.approximateCount(), 0);
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);

    const { deadAt, ...letter } = await takeLetter(bench);
    assert(deadAt >= message.enqueuedAt, `${deadAt} is when it was buried`);
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

  holds("a letter has the progress of the last delivery", async (bench) => {
    await bench.mailbox.sendMany(["a", "b"]);
    const [early, late] = await bench.mailbox.receive({ maxMessages: 2 });
    await early!.saveCheckpoint({ step: 1 });
    await early!.nack();
    await (await bench.take()).deadLetter({ reason: "test" });
    assertEquals((await takeLetter(bench)).checkpoint, { step: 1 }, "of an earlier delivery");
    await late!.saveCheckpoint({ step: 2 });
    await late!.deadLetter({ reason: "test" });
    assertEquals((await takeLetter(bench)).checkpoint, { step: 2 }, "of this delivery");
  }),

  holds("an id that is used and buried again leaves two letters, not one", async (bench) => {
    const { deadLetters } = bench.mailbox;
    for (const body of ["first", "second"]) {
      await bench.mailbox.send(body, { id: "same" });
      await (await bench.take()).deadLetter({ reason: "test" });
    }
    const letters = await deadLetters.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => body.body).sort(), ["first", "second"]);
  }),

  holds("dead letters are a mailbox like any other", async (bench) => {
    const { deadLetters } = bench.mailbox;
    for (const body of [1, 2]) {
      await bench.mailbox.send(body);
      await (await bench.take()).deadLetter({ reason: "test" });
    }
    const first = await bench.take({}, deadLetters);
    await first.nack({ delayMs: bench.ms(100) });
    const second = await bench.take({}, deadLetters);
    await second.acknowledge();
    assertEquals(await deadLetters.approximateCount(), 1);
    assertEquals([first.body.body, second.body.body].sort(), [1, 2]);
  }),

  holds("a purge leaves the dead letters alone", async (bench) => {
    await bench.mailbox.sendMany([1, 2]);
    await (await bench.take()).deadLetter({ reason: "test" });
    assertEquals(await bench.mailbox.purge(), 1);
    assertEquals(await bench.mailbox.deadLetters.approximateCount(), 1);
  }),

  unreadable("an unreadable body does not hold up its batch", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("before");
    await bench.sendRaw("{ this is no JSON");
    await mailbox.send("after");
    assertEquals((await bench.drain(10)).sort(), ["after", "before"]);
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  unreadable("an unreadable body goes to the dead letters as it is", async (bench) => {
    const { mailbox } = bench;
    await bench.sendRaw("{ this is no JSON");
    assertEquals(await mailbox.receive(), []);
    const letter = await takeLetter(bench);
    assertEquals(letter.raw, "{ this is no JSON");
    assertEquals(letter.reason, "unreadable");
    assertEquals("body" in letter, false);
    assertEquals(letter.deliveryCount, 1);
    assert(letter.error !== undefined && letter.error.length > 0, "it tells what was wrong");
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  unreadable("a wait goes on past an unreadable body", async (bench) => {
    const { received } = await bench.waiting();
    await bench.sendRaw("{ this is no JSON");
    await bench.mailbox.send("good");
    assertEquals((await bench.soon(received)).map(({ body }) => body), ["good"]);
  }),

  topic("dead letters", { needs: ["deadLetters", "maxBodyBytes"] })(
    "the largest body can be buried, and comes back",
    async (bench) => {
      const body = '"'.repeat((bench.maxBodyBytes - 2) / 2); // every quote is written as two bytes
      await bench.mailbox.send(body);
      await (await bench.take()).deadLetter({ reason: "test" });
      assertEquals(await redrive(bench.mailbox), 1);
      assertEquals((await bench.take()).body, body);
    },
  ),

  holds("a redrive brings messages back under their old ids", async (bench) => {
    const { mailbox } = bench;
    const ids = await mailbox.sendMany([1, 2, 3], { replyTo: "replies" });
    await bury(bench, 3, "test");
    assertEquals(await redrive(mailbox), 3);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id }) => id).sort(), ids.toSorted());
    for (const { id, body, deliveryCount, replyTo } of messages) {
      assertEquals([ids.indexOf(id) + 1, deliveryCount, replyTo], [body, 1, "replies"]);
    }
    assertEquals(await redrive(mailbox), 0);
  }),

  holds("a redrive keeps a letter and a waiting message of the same id", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("failed", { id: "order-7" });
    await bury(bench, 1, "test");
    await mailbox.send("waiting", { id: "order-7" });
    assertEquals(await redrive(mailbox), 1);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
    assertEquals((await bench.drain()).sort(), ["failed", "waiting"]);
  }),

  holds("a redrive turns two letters of one id into two messages", async (bench) => {
    const { mailbox } = bench;
    for (const body of ["first", "second"]) {
      await mailbox.send(body, { id: "order-7" });
      await bury(bench, 1, "test");
    }
    assertEquals(await redrive(mailbox), 2);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
    assertEquals((await bench.drain()).sort(), ["first", "second"]);
  }),

  holds("a redrive restores the checkpoint", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("work");
    const message = await bench.take();
    await message.saveCheckpoint({ step: 2 });
    await message.deadLetter({ reason: "test" });
    assertEquals(await redrive(mailbox), 1);
    const { checkpoint, deliveryCount } = await bench.take();
    assertEquals([checkpoint, deliveryCount], [{ step: 2 }, 1]);
  }),

  holds("a redrive takes only what it was asked for, and the others stay", async (bench) => {
    const { mailbox } = bench;
    for (const [body, reason] of [[1, "schema"], [2, "timeout"], [3, "schema"]] as const) {
      await mailbox.send(body);
      await bury(bench, 1, reason);
    }
    assertEquals(await redrive(mailbox, { only: ({ reason }) => reason === "timeout" }), 1);
    assertEquals(await bench.drain(), [2]);
    const stayed = await mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(stayed.map(({ body }) => (body as DeadLetter<unknown>).body).sort(), [1, 3]);
  }),

  holds("a redrive brings back as many as it was asked for", async (bench) => {
    const { mailbox } = bench;
    await mailbox.sendMany([1, 2, 3]);
    await bury(bench, 3, "test");
    assertEquals(await redrive(mailbox, { maxMessages: 2 }), 2);
    assertEquals(await mailbox.approximateCount(), 2);
    assertEquals((await mailbox.deadLetters.receive({ maxMessages: 10 })).length, 1);
  }),

  unreadable("a redrive passes over what cannot be read", async (bench) => {
    await bench.sendRaw("{ this is no JSON");
    await bench.mailbox.receive();
    await bench.mailbox.send("good");
    await bury(bench, 1, "test");
    assertEquals(await redrive(bench.mailbox), 1);
    assertEquals((await takeLetter(bench)).raw, "{ this is no JSON");
  }),
];

async function bury(bench: Bench, count: number, reason: string): Promise<void> {
  const messages = await bench.mailbox.receive({ maxMessages: count });
  assertEquals(messages.length, count);
  for (const message of messages) await message.deadLetter({ reason });
}

async function takeLetter(bench: Bench): Promise<DeadLetter<unknown>> {
  const message = await bench.take({}, bench.mailbox.deadLetters);
  await message.acknowledge();
  return message.body;
}
