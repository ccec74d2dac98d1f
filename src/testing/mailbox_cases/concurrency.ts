import { assert, assertEquals } from "@std/assert";
import type { Mailbox, Message } from "../../mailbox/mailbox.ts";
import { isMailboxError } from "../../mailbox/errors.ts";
import { type Bench, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("concurrency");
const shared = topic("concurrency", { needs: ["sibling"] });
const racing = topic("concurrency", { requires: ["fencedAck", "perReceiveVisibility"] });

/** Many at once get along. */
export const concurrency: readonly MailboxCase[] = [
  holds("concurrent receivers never get the same message", async (bench) => {
    await everyMessageOnce(bench, Array.from({ length: 8 }, () => bench.mailbox));
  }),

  shared(
    "concurrent receivers of several connections never get the same message",
    async (bench) => {
      const { mailbox } = bench;
      const one = await bench.sibling();
      const other = await bench.sibling();
      await everyMessageOnce(bench, [mailbox, one, other, mailbox, one, other, mailbox, one]);
    },
  ),

  holds("concurrent senders lose nothing", async (bench) => {
    const bodies = Array.from({ length: 100 }, (_, i) => i);
    const ids = await Promise.all(bodies.map((body) => bench.mailbox.send(body)));
    assertEquals(new Set(ids).size, 100);
    const received = await bench.drain();
    assertEquals(received.map(Number).sort((a, b) => a - b), bodies);
  }),

  holds("receivers that wait share what comes, and nothing is left lying", async (bench) => {
    const waits: { readonly received: Promise<Message<unknown>[]> }[] = [];
    for (let i = 0; i < 8; i++) waits.push(await bench.waiting({ maxMessages: 2 }));
    await Promise.all(Array.from({ length: 8 }, (_, i) => bench.mailbox.send(i)));
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
    await bench.soon(allSeen);
    assertEquals(await bench.mailbox.approximateCount(), 0);
    await bench.mailbox.close();
    await bench.soon(Promise.all(waits.map(({ received }) => received)));
  }),

  racing("an acknowledge at the moment its lease ends has one winner", async (bench) => {
    for (const ticks of [2.9, 3, 3.1]) {
      const bodies = Array.from({ length: 10 }, (_, i) => `${ticks}:${i}`);
      await bench.mailbox.sendMany(bodies);
      const options = { maxMessages: 10, visibilityTimeoutMs: bench.ms(3) };
      const held = await bench.mailbox.receive(options);
      assertEquals(held.length, 10);
      await bench.pass(ticks);
      const [done, ...again] = await Promise.all([
        acknowledged(held),
        bench.mailbox.receive({ maxMessages: 5 }),
        bench.mailbox.receive({ maxMessages: 5 }),
      ]);
      await bench.pass(0.2);
      const rest = [...again.flat(), ...await bench.mailbox.receive({ maxMessages: 10 })];
      assertEquals([...done, ...rest.map(({ body }) => body)].sort(), bodies);
      assertEquals((await acknowledged(rest)).length, rest.length);
    }
  }),

  racing("an extension at the moment of the acknowledge brings nothing back", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("work");
    const message = await bench.take();
    const extended = message.extendVisibility(bench.ms(100));
    const [, , late] = await Promise.allSettled([
      extended,
      message.acknowledge(),
      message.extendVisibility(bench.ms(100)),
    ]);
    assertEquals(late.status, "rejected");
    assertEquals(await mailbox.approximateCount(), 0);
    await bench.hidden();
  }),
];

/** Eight receivers share 200 messages, each in its own pace. */
async function everyMessageOnce(
  bench: Bench,
  receivers: readonly Mailbox<unknown>[],
): Promise<void> {
  const ids = await bench.mailbox.sendMany(Array.from({ length: 200 }, (_, i) => i));
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
  assertEquals(await bench.mailbox.approximateCount(), 0);
}

/** The bodies of those that could be acknowledged; for the others it was too late. */
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
