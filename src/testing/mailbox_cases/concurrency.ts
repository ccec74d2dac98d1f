import { assert, assertEquals } from "@std/assert";
import type { Mailbox, Message } from "../../mailbox/mailbox.ts";
import { isMailboxError } from "../../mailbox/errors.ts";
import { type MailboxCase, type Setup, topic } from "./mailbox_case.ts";

const holds = topic("concurrency");
const shared = topic("concurrency", { needs: ["sibling"] });
const racing = topic("concurrency", { requires: ["fencedAck", "perReceiveVisibility"] });

/** Concurrent calls neither lose nor duplicate messages. */
export const concurrency: readonly MailboxCase[] = [
  holds("concurrent receivers never receive the same message", async (setup) => {
    await everyMessageOnce(setup, Array.from({ length: 8 }, () => setup.mailbox));
  }),

  shared(
    "concurrent receivers on several connections never receive the same message",
    async (setup) => {
      const { mailbox } = setup;
      const one = await setup.sibling();
      const other = await setup.sibling();
      await everyMessageOnce(setup, [mailbox, one, other, mailbox, one, other, mailbox, one]);
    },
  ),

  holds("concurrent senders lose nothing", async (setup) => {
    const bodies = Array.from({ length: 100 }, (_, i) => i);
    const ids = await Promise.all(bodies.map((body) => setup.mailbox.send(body)));
    assertEquals(new Set(ids).size, 100);
    const received = await setup.receiveAndAcknowledge();
    assertEquals(received.map(Number).sort((a, b) => a - b), bodies);
  }),

  holds("waiting receivers share all sent messages", async (setup) => {
    const waits: { readonly received: Promise<Message<unknown>[]> }[] = [];
    for (let i = 0; i < 8; i++) waits.push(await setup.waiting({ maxMessages: 2 }));
    await Promise.all(Array.from({ length: 8 }, (_, i) => setup.mailbox.send(i)));
    const seen = new Set<unknown>();
    const allSeen = new Promise<void>((resolve, reject) => {
      const work = async (received: Promise<Message<unknown>[]>) => {
        for (const message of await received) {
          await message.acknowledge();
          seen.add(message.body);
        }
        if (seen.size === 8) resolve();
      };
      for (const { received } of waits) work(received).catch(reject);
    });
    await setup.soon(allSeen);
    assertEquals(await setup.mailbox.approximateCount(), 0);
    await setup.mailbox.close();
    await setup.soon(Promise.all(waits.map(({ received }) => received)));
  }),

  racing(
    "a message is acknowledged or delivered again when its lease ends during the acknowledge",
    async (setup) => {
      for (const ticks of [2.9, 3, 3.1]) {
        const bodies = Array.from({ length: 10 }, (_, i) => `${ticks}:${i}`);
        await setup.mailbox.sendMany(bodies);
        const options = { maxMessages: 10, visibilityTimeoutMs: setup.ms(3) };
        const held = await setup.mailbox.receive(options);
        assertEquals(held.length, 10);
        await setup.pass(ticks);
        const [done, ...again] = await Promise.all([
          acknowledged(held),
          setup.mailbox.receive({ maxMessages: 5 }),
          setup.mailbox.receive({ maxMessages: 5 }),
        ]);
        await setup.pass(0.2);
        const rest = [...again.flat(), ...await setup.mailbox.receive({ maxMessages: 10 })];
        if (done.length + rest.length < bodies.length) {
          // An acknowledgement that was refused may have extended the lease before.
          const waitTimeMs = setup.ms(20);
          rest.push(...await setup.soon(setup.mailbox.receive({ maxMessages: 10, waitTimeMs })));
        }
        assertEquals([...done, ...rest.map(({ body }) => body)].sort(), bodies);
        assertEquals((await acknowledged(rest)).length, rest.length);
      }
    },
  ),

  racing("an extension during an acknowledge does not restore the message", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("work");
    const message = await setup.receiveOne();
    const extended = message.extendVisibility(setup.ms(100));
    const [, , late] = await Promise.allSettled([
      extended,
      message.acknowledge(),
      message.extendVisibility(setup.ms(100)),
    ]);
    assertEquals(late.status, "rejected");
    assertEquals(await mailbox.approximateCount(), 0);
    await setup.assertNoneVisible();
  }),
];

/** Lets eight receivers share 200 messages, and asserts that each is received once. */
async function everyMessageOnce(
  setup: Setup,
  receivers: readonly Mailbox<unknown>[],
): Promise<void> {
  const ids = (await setup.mailbox.sendMany(Array.from({ length: 200 }, (_, i) => i))).map((
    { id },
  ) => id);
  const seen: string[] = [];
  await Promise.all(receivers.map(async (mailbox, i) => {
    for (;;) {
      const messages = await mailbox.receive({ maxMessages: 1 + i % 5 });
      if (messages.length === 0) return;
      for (const message of messages) {
        seen.push(message.id);
        assertEquals(message.deliveryCount, 1);
        if (i % 2 === 0) await message.acknowledge();
      }
      if (i % 2 === 1) await Promise.all(messages.map((message) => message.acknowledge()));
    }
  }));
  assertEquals(seen.toSorted(), ids.toSorted());
  assertEquals(await setup.mailbox.approximateCount(), 0);
}

/** Acknowledges messages. Returns the bodies of those whose lease was active. */
async function acknowledged(messages: readonly Message<unknown>[]): Promise<unknown[]> {
  const done: unknown[] = [];
  await Promise.all(messages.map(async (message) => {
    try {
      await message.acknowledge();
      done.push(message.body);
    } catch (error) {
      assert(isMailboxError(error, "ReceiptHandleExpiredError"), String(error));
    }
  }));
  return done;
}
