import { assertEquals } from "@std/assert";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("close");
const shared = topic("close", { needs: ["sibling"] });

/** A closed mailbox gives and takes nothing more, and keeps what it has. */
export const close: readonly MailboxCase[] = [
  holds("closing wakes whoever waits", async (bench) => {
    const waits = [await bench.waiting(), await bench.waiting({ maxMessages: 10 })];
    assertEquals(bench.mailbox.closed, false);
    await bench.mailbox.close();
    assertEquals(bench.mailbox.closed, true);
    assertEquals(await bench.soon(Promise.all(waits.map(({ received }) => received))), [[], []]);
  }),

  holds("a closed mailbox gives nothing", async (bench) => {
    await bench.mailbox.send("work");
    await bench.mailbox.close();
    assertEquals(await bench.mailbox.receive(), []);
    const waitTimeMs = bench.ms(1_000);
    assertEquals(await bench.soon(bench.mailbox.receive({ waitTimeMs })), []);
  }),

  holds("a closed mailbox takes nothing", async (bench) => {
    await bench.mailbox.close();
    await refused("MailboxClosedError", () => bench.mailbox.send("late"));
    await refused("MailboxClosedError", () => bench.mailbox.sendMany(["late", "later"]));
  }),

  holds("closing twice is closing once, and the end of a block closes", async (bench) => {
    await bench.mailbox[Symbol.asyncDispose]();
    assertEquals(bench.mailbox.closed, true);
    await Promise.all([bench.mailbox.close(), bench.mailbox.close()]);
  }),

  shared("what is stored stays stored, for others too", async (bench) => {
    const sibling = await bench.sibling();
    await bench.mailbox.sendMany([1, 2]);
    await bench.mailbox.close();
    assertEquals(sibling.closed, false);
    await sibling.send(3);
    assertEquals((await bench.drain(10, sibling)).sort(), [1, 2, 3]);
  }),

  shared("what is handed over at the moment of a close is not stranded", async (bench) => {
    const sibling = await bench.sibling();
    await bench.mailbox.send("work");
    const received = bench.mailbox.receive();
    const closed = bench.mailbox.close();
    const messages = await bench.soon(received);
    await closed;
    const waitTimeMs = messages.length > 0 ? 0 : bench.ms(5);
    const rest = await bench.soon(sibling.receive({ waitTimeMs }));
    assertEquals([...messages, ...rest].map(({ body }) => body), ["work"]);
  }),
];
