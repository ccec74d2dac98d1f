import { assertEquals } from "@std/assert";
import type { Message } from "../../mailbox/mailbox.ts";
import { type MailboxCase, refused, type Setup, topic } from "./mailbox_case.ts";

const holds = topic("abort");

/** An abort ends a wait and loses no message. */
export const abort: readonly MailboxCase[] = [
  holds("a receive with an aborted signal receives nothing", async (setup) => {
    await setup.mailbox.send("work");
    const signal = AbortSignal.abort();
    assertEquals(await setup.mailbox.receive({ signal }), []);
    const waitTimeMs = setup.ms(1_000);
    assertEquals(await setup.soon(setup.mailbox.receive({ signal, waitTimeMs })), []);
    assertEquals((await setup.receiveOne()).deliveryCount, 1);
  }),

  holds("an aborted receive returns []", async (setup) => {
    const controller = new AbortController();
    const { received } = await setup.waiting({ signal: controller.signal });
    controller.abort();
    assertEquals(await setup.soon(received), []);
    const { id } = await setup.mailbox.send("later");
    assertEquals((await setup.receiveOne()).id, id);
  }),

  holds("messages that are delivered during an abort are received or released", async (setup) => {
    await setup.mailbox.sendMany([1, 2, 3]);
    const controller = new AbortController();
    const received = setup.mailbox.receive({ maxMessages: 3, signal: controller.signal });
    controller.abort();
    await assertSeenOnce(setup, [1, 2, 3], await setup.soon(received));
  }),

  holds("a message that is sent during an abort is not lost", async (setup) => {
    for (let turns = 0; turns < 12; turns++) {
      const controller = new AbortController();
      const { received } = await setup.waiting({ signal: controller.signal });
      const sent = setup.mailbox.send(turns);
      // Each round aborts a little later, to meet every step of the delivery.
      for (let i = 0; i < turns; i++) await Promise.resolve();
      controller.abort();
      await sent;
      await assertSeenOnce(setup, [turns], await setup.soon(received));
    }
  }),

  topic("abort", { requires: ["restoresAttempts"] })(
    "a message that is sent during an abort spends no attempt",
    async (setup) => {
      for (let turns = 0; turns < 4; turns++) {
        const controller = new AbortController();
        const { received } = await setup.waiting({ signal: controller.signal });
        const sent = setup.mailbox.send(turns);
        for (let i = 0; i < turns; i++) await setup.pass(0);
        controller.abort();
        await sent;
        const [early] = await setup.soon(received);
        const message = early ?? await setup.receiveOne();
        assertEquals([message.body, message.deliveryCount], [turns, 1]);
        await message.acknowledge();
      }
    },
  ),

  holds("a message that is sent after an abort is left to the next receive", async (setup) => {
    const controller = new AbortController();
    const { received } = await setup.waiting({ signal: controller.signal });
    controller.abort();
    await setup.mailbox.send("work");
    await assertSeenOnce(setup, ["work"], await setup.soon(received));
  }),

  holds("a message reaches another receiver when one is aborted", async (setup) => {
    for (const abortFirst of [true, false]) {
      const controller = new AbortController();
      const aborted = await setup.waiting({ signal: controller.signal });
      const remaining = await setup.waiting();
      if (abortFirst) controller.abort();
      const sent = setup.mailbox.send("work");
      if (!abortFirst) controller.abort();
      await sent;
      const early = await setup.soon(aborted.received);
      if (early.length > 0) await setup.mailbox.send("work"); // the delivery was faster than the abort
      const [message] = await setup.soon(remaining.received);
      assertEquals(message?.body, "work");
      for (const seen of [...early, message!]) await seen.acknowledge();
    }
  }),

  topic("abort", { requires: ["delay"] })(
    "an aborted receiver does not delay the others",
    async (setup) => {
      const controller = new AbortController();
      const aborted = await setup.waiting({ signal: controller.signal });
      const remaining = await setup.waiting();
      const { id } = await setup.mailbox.send("later", { delayMs: setup.ms(4) });
      controller.abort();
      assertEquals(await setup.soon(aborted.received), []);
      assertEquals((await setup.soon(remaining.received))[0]?.id, id);
    },
  ),

  holds("receive leaves no listener on the caller's signal", async (setup) => {
    const { signal, listening } = watchedSignal();
    const { received } = await setup.waiting({ signal });
    await setup.mailbox.send("work");
    await setup.soon(received);
    const empty = setup.mailbox.receive({ signal, waitTimeMs: setup.ms(1) });
    await setup.soon(empty);
    assertEquals(listening(), 0, "listeners left on the signal");
  }),
];

const closing = topic("close");
const shared = topic("close", { needs: ["sibling"] });

/** A closed mailbox neither sends nor receives, and its messages stay stored. */
export const close: readonly MailboxCase[] = [
  closing("close ends waiting receives", async (setup) => {
    const waits = [await setup.waiting(), await setup.waiting({ maxMessages: 10 })];
    assertEquals(setup.mailbox.closed, false);
    await setup.mailbox.close();
    assertEquals(setup.mailbox.closed, true);
    assertEquals(await setup.soon(Promise.all(waits.map(({ received }) => received))), [[], []]);
  }),

  closing("a closed mailbox returns []", async (setup) => {
    await setup.mailbox.send("work");
    await setup.mailbox.close();
    assertEquals(await setup.mailbox.receive(), []);
    const waitTimeMs = setup.ms(1_000);
    assertEquals(await setup.soon(setup.mailbox.receive({ waitTimeMs })), []);
  }),

  closing("a closed mailbox refuses to send", async (setup) => {
    await setup.mailbox.close();
    await refused("MailboxClosedError", () => setup.mailbox.send("late"));
    await refused("MailboxClosedError", () => setup.mailbox.sendMany(["late", "later"]));
  }),

  closing("a mailbox can be closed twice, and await using closes it", async (setup) => {
    await setup.mailbox[Symbol.asyncDispose]();
    assertEquals(setup.mailbox.closed, true);
    await Promise.all([setup.mailbox.close(), setup.mailbox.close()]);
  }),

  shared("stored messages stay after a close, and other connections stay open", async (setup) => {
    const sibling = await setup.sibling();
    await setup.mailbox.sendMany([1, 2]);
    await setup.mailbox.close();
    assertEquals(sibling.closed, false);
    await sibling.send(3);
    assertEquals((await setup.receiveAndAcknowledge(10, sibling)).sort(), [1, 2, 3]);
  }),

  shared("messages that are delivered during a close are received or released", async (setup) => {
    const sibling = await setup.sibling();
    await setup.mailbox.send("work");
    const received = setup.mailbox.receive();
    const closed = setup.mailbox.close();
    const messages = await setup.soon(received);
    await closed;
    const waitTimeMs = messages.length > 0 ? 0 : setup.ms(5);
    const rest = await setup.soon(sibling.receive({ waitTimeMs }));
    assertEquals([...messages, ...rest].map(({ body }) => body), ["work"]);
  }),
];

/** Asserts that each body was received or is visible now, at its first attempt. */
async function assertSeenOnce(
  setup: Setup,
  bodies: readonly unknown[],
  received: readonly Message<unknown>[],
): Promise<void> {
  const rest = await setup.soon(
    setup.mailbox.receive({ maxMessages: 10, waitTimeMs: received.length > 0 ? 0 : setup.ms(5) }),
  );
  const all = [...received, ...rest];
  assertEquals(all.map(({ body }) => body).sort(), [...bodies]);
  if (setup.mailbox.capabilities.restoresAttempts) {
    assertEquals(all.map(({ deliveryCount }) => deliveryCount), all.map(() => 1));
  }
  for (const message of all) await message.acknowledge();
}

/** Returns a signal that counts its listeners. */
function watchedSignal(): { readonly signal: AbortSignal; readonly listening: () => number } {
  const { signal } = new AbortController();
  let count = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...parameters: unknown[]) => {
    count++;
    addEventListener.apply(signal, parameters as never);
  };
  signal.removeEventListener = (...parameters: unknown[]) => {
    count--;
    removeEventListener.apply(signal, parameters as never);
  };
  return { signal, listening: () => count };
}
