import { assertEquals } from "@std/assert";
import { topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("long poll");
const leased = topic("long poll", { requires: ["perReceiveVisibility"] });
const delayed = topic("long poll", { requires: ["delay"] });
const shared = topic("long poll", { needs: ["sibling"] });

/** A waiting receive returns as soon as there is a message. */
export const longPoll: readonly MailboxCase[] = [
  holds("a message that is there is received without a wait", async (bench) => {
    await bench.mailbox.send("work");
    const received = bench.mailbox.receive({ waitTimeMs: bench.ms(1_000) });
    assertEquals((await bench.soon(received)).length, 1);
  }),

  holds("a message that is sent ends the wait", async (bench) => {
    const { received } = await bench.waiting();
    const id = await bench.mailbox.send("work");
    const [message] = await bench.soon(received);
    assertEquals([message?.id, message?.deliveryCount], [id, 1]);
  }),

  holds("a waiting batch receive does not hold back a ready message", async (bench) => {
    const { received } = await bench.waiting({ maxMessages: 10 });
    await bench.mailbox.send("first");
    assertEquals((await bench.soon(received)).map(({ body }) => body), ["first"]);
  }),

  holds("a wait that was in vain ends with []", async (bench) => {
    const { received } = await bench.waiting({ waitTimeMs: bench.ms(2) });
    assertEquals(await bench.soon(received), []);
    await bench.mailbox.send("later");
    await bench.take();
  }),

  holds("a message sent at the end of a wait is not lost", async (bench) => {
    for (const ticks of [0.9, 1, 1.1]) {
      const received = bench.mailbox.receive({ waitTimeMs: bench.ms(1) });
      await bench.pass(ticks);
      await bench.mailbox.send(ticks);
      const bodies = (await bench.soon(received)).map(({ body }) => body);
      assertEquals(bodies.length > 0 ? bodies : await bench.drain(), [ticks]);
    }
  }),

  holds("a message sent while a receiver looks is not overlooked", async (bench) => {
    for (let turns = 0; turns < 8; turns++) {
      const received = bench.mailbox.receive({ waitTimeMs: bench.ms(1_000) });
      // It is sent a little later each time, so that it meets every step of the look.
      for (let i = 0; i < turns; i++) await bench.pass(0);
      await bench.mailbox.send(turns);
      const [message] = await bench.soon(received);
      assertEquals(message?.body, turns);
      await message?.acknowledge();
    }
  }),

  holds("many messages end the waits of as many receivers", async (bench) => {
    const waits = [];
    for (let i = 0; i < 4; i++) waits.push(await bench.waiting());
    await bench.mailbox.sendMany([1, 2, 3]);
    await bench.mailbox.send(4);
    const batches = await bench.soon(Promise.all(waits.map(({ received }) => received)));
    assertEquals(batches.flat().map(({ body }) => body).sort(), [1, 2, 3, 4]);
  }),

  holds("a message that is given back ends the wait", async (bench) => {
    await bench.mailbox.send("work");
    for (const giveBack of ["release", "nack"] as const) {
      const message = await bench.take();
      const { received } = await bench.waiting();
      await message[giveBack]();
      const [again] = await bench.soon(received);
      assertEquals(again?.id, message.id, `after a ${giveBack}`);
      await again?.nack();
    }
  }),

  holds("a message nacked with a delay ends the wait when that is over", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take();
    const { received } = await bench.waiting();
    await message.nack({ delayMs: bench.ms(2) });
    assertEquals((await bench.soon(received))[0]?.id, message.id);
  }),

  delayed("a delayed message ends the wait when it is due", async (bench) => {
    const { received } = await bench.waiting();
    const id = await bench.mailbox.send("later", { delayMs: bench.ms(2) });
    assertEquals((await bench.soon(received))[0]?.id, id);
  }),

  delayed("the sooner of two delayed messages ends the wait", async (bench) => {
    await bench.mailbox.send("late", { delayMs: bench.ms(1_000) });
    const { received } = await bench.waiting();
    const id = await bench.mailbox.send("soon", { delayMs: bench.ms(2) });
    assertEquals((await bench.soon(received))[0]?.id, id);
  }),

  delayed("a receiver whose wait is over leaves the due times to the others", async (bench) => {
    const impatient = await bench.waiting({ waitTimeMs: bench.ms(2) });
    const patient = await bench.waiting();
    const id = await bench.mailbox.send("later", { delayMs: bench.ms(4) });
    assertEquals(await bench.soon(impatient.received), []);
    assertEquals((await bench.soon(patient.received))[0]?.id, id);
  }),

  leased("a lease that ends ends the wait", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
    const { received } = await bench.waiting();
    const [again] = await bench.soon(received);
    assertEquals([again?.id, again?.deliveryCount], [message.id, 2]);
  }),

  shared("a message that another sends ends the wait", async (bench) => {
    const sibling = await bench.sibling();
    const { received } = await bench.waiting();
    const id = await sibling.send("work");
    assertEquals((await bench.soon(received))[0]?.id, id);
  }),

  shared("a message that another gives back ends the wait", async (bench) => {
    const sibling = await bench.sibling();
    const id = await bench.mailbox.send("work");
    const message = await bench.take({}, sibling);
    const { received } = await bench.waiting();
    await message.release();
    assertEquals((await bench.soon(received))[0]?.id, id);
  }),
];
