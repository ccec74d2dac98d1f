import { assertEquals } from "@std/assert";
import { type MailboxCase, topic } from "./mailbox_case.ts";

const holds = topic("long poll");
const leased = topic("long poll", { requires: ["perReceiveVisibility"] });
const delayed = topic("long poll", { requires: ["delay"] });
const shared = topic("long poll", { needs: ["sibling"] });

/** A waiting receive returns as soon as there is a message. */
export const longPoll: readonly MailboxCase[] = [
  holds("a visible message is received without waiting", async (setup) => {
    await setup.mailbox.send("work");
    const received = setup.mailbox.receive({ waitTimeMs: setup.ms(1_000) });
    assertEquals((await setup.soon(received)).length, 1);
  }),

  holds("a sent message ends the wait", async (setup) => {
    const { received } = await setup.waiting();
    const { id } = await setup.mailbox.send("work");
    const [message] = await setup.soon(received);
    assertEquals([message?.id, message?.deliveryCount], [id, 1]);
  }),

  holds("a waiting receive returns the first message and does not wait for more", async (setup) => {
    const { received } = await setup.waiting({ maxMessages: 10 });
    await setup.mailbox.send("first");
    assertEquals((await setup.soon(received)).map(({ body }) => body), ["first"]);
  }),

  holds("a receive returns [] when its wait time passes", async (setup) => {
    const { received } = await setup.waiting({ waitTimeMs: setup.ms(2) });
    assertEquals(await setup.soon(received), []);
    await setup.mailbox.send("later");
    await setup.receiveOne();
  }),

  holds("a message that is sent when a wait ends is not lost", async (setup) => {
    for (const ticks of [0.9, 1, 1.1]) {
      const received = setup.mailbox.receive({ waitTimeMs: setup.ms(1) });
      await setup.pass(ticks);
      await setup.mailbox.send(ticks);
      const bodies = (await setup.soon(received)).map(({ body }) => body);
      assertEquals(bodies.length > 0 ? bodies : await setup.receiveAndAcknowledge(), [ticks]);
    }
  }),

  holds("a message that is sent during a receive is received", async (setup) => {
    for (let turns = 0; turns < 8; turns++) {
      const received = setup.mailbox.receive({ waitTimeMs: setup.ms(1_000) });
      // Each round sends a little later, to meet every step of the receive.
      for (let i = 0; i < turns; i++) await setup.pass(0);
      await setup.mailbox.send(turns);
      const [message] = await setup.soon(received);
      assertEquals(message?.body, turns);
      await message?.acknowledge();
    }
  }),

  holds("several messages end the waits of as many receivers", async (setup) => {
    const waits = [];
    for (let i = 0; i < 4; i++) waits.push(await setup.waiting());
    await setup.mailbox.sendMany([1, 2, 3]);
    await setup.mailbox.send(4);
    const batches = await setup.soon(Promise.all(waits.map(({ received }) => received)));
    assertEquals(batches.flat().map(({ body }) => body).sort(), [1, 2, 3, 4]);
  }),

  holds("a released or nacked message ends the wait", async (setup) => {
    await setup.mailbox.send("work");
    for (const verb of ["release", "nack"] as const) {
      const message = await setup.receiveOne();
      const { received } = await setup.waiting();
      await message[verb]();
      const [again] = await setup.soon(received);
      assertEquals(again?.id, message.id, `after a ${verb}`);
      await again?.nack();
    }
  }),

  holds("a message nacked with a delay ends the wait when it is due", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne();
    const { received } = await setup.waiting();
    await message.nack({ delayMs: setup.ms(2) });
    assertEquals((await setup.soon(received))[0]?.id, message.id);
  }),

  delayed("a delayed message ends the wait when it is due", async (setup) => {
    const { received } = await setup.waiting();
    const { id } = await setup.mailbox.send("later", { delayMs: setup.ms(2) });
    assertEquals((await setup.soon(received))[0]?.id, id);
  }),

  delayed("the earlier of two delayed messages ends the wait", async (setup) => {
    await setup.mailbox.send("late", { delayMs: setup.ms(1_000) });
    const { received } = await setup.waiting();
    const { id } = await setup.mailbox.send("soon", { delayMs: setup.ms(2) });
    assertEquals((await setup.soon(received))[0]?.id, id);
  }),

  delayed("a receiver whose wait ended does not delay the others", async (setup) => {
    const short = await setup.waiting({ waitTimeMs: setup.ms(2) });
    const long = await setup.waiting();
    const { id } = await setup.mailbox.send("later", { delayMs: setup.ms(4) });
    assertEquals(await setup.soon(short.received), []);
    assertEquals((await setup.soon(long.received))[0]?.id, id);
  }),

  leased("a visibility timeout that passes ends the wait", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
    const { received } = await setup.waiting();
    const [again] = await setup.soon(received);
    assertEquals([again?.id, again?.deliveryCount], [message.id, 2]);
  }),

  shared("a message that another connection sends ends the wait", async (setup) => {
    const sibling = await setup.sibling();
    const { received } = await setup.waiting();
    const { id } = await sibling.send("work");
    assertEquals((await setup.soon(received))[0]?.id, id);
  }),

  shared("a message that another connection releases ends the wait", async (setup) => {
    const sibling = await setup.sibling();
    const { id } = await setup.mailbox.send("work");
    const message = await setup.receiveOne({}, sibling);
    const { received } = await setup.waiting();
    await message.release();
    assertEquals((await setup.soon(received))[0]?.id, id);
  }),
];
