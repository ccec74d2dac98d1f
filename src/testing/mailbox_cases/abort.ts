import { assertEquals } from "@std/assert";
import type { Message } from "../../mailbox/mailbox.ts";
import { type Bench, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("abort");

/** An abort ends a wait, and no message is lost or stranded by it. */
export const abort: readonly MailboxCase[] = [
  holds("a receive that is aborted before its start takes nothing", async (bench) => {
    await bench.mailbox.send("work");
    const signal = AbortSignal.abort();
    assertEquals(await bench.mailbox.receive({ signal }), []);
    const waitTimeMs = bench.ms(1_000);
    assertEquals(await bench.soon(bench.mailbox.receive({ signal, waitTimeMs })), []);
    assertEquals((await bench.take()).deliveryCount, 1);
  }),

  holds("an abort ends the wait with []", async (bench) => {
    const controller = new AbortController();
    const { received } = await bench.waiting({ signal: controller.signal });
    controller.abort();
    assertEquals(await bench.soon(received), []);
    const id = await bench.mailbox.send("later");
    assertEquals((await bench.take()).id, id);
  }),

  holds("what is handed over at the moment of the abort is not stranded", async (bench) => {
    await bench.mailbox.sendMany([1, 2, 3]);
    const controller = new AbortController();
    const received = bench.mailbox.receive({ maxMessages: 3, signal: controller.signal });
    controller.abort();
    await seenOnce(bench, [1, 2, 3], await bench.soon(received));
  }),

  holds("a message sent at the moment of the abort is not lost", async (bench) => {
    for (let turns = 0; turns < 12; turns++) {
      const controller = new AbortController();
      const { received } = await bench.waiting({ signal: controller.signal });
      const sent = bench.mailbox.send(turns);
      // The abort comes a little later each time, so that it meets every step of the hand-over.
      for (let i = 0; i < turns; i++) await Promise.resolve();
      controller.abort();
      await sent;
      await seenOnce(bench, [turns], await bench.soon(received));
    }
  }),

  holds("an abort just before a message is sent leaves it to the next", async (bench) => {
    const controller = new AbortController();
    const { received } = await bench.waiting({ signal: controller.signal });
    controller.abort();
    await bench.mailbox.send("work");
    await seenOnce(bench, ["work"], await bench.soon(received));
  }),

  holds("a message goes to a receiver that remains", async (bench) => {
    for (const abortFirst of [true, false]) {
      const controller = new AbortController();
      const leaving = await bench.waiting({ signal: controller.signal });
      const remaining = await bench.waiting();
      if (abortFirst) controller.abort();
      const sent = bench.mailbox.send("work");
      if (!abortFirst) controller.abort();
      await sent;
      const early = await bench.soon(leaving.received);
      if (early.length > 0) await bench.mailbox.send("work"); // it was quicker than the abort
      const [message] = await bench.soon(remaining.received);
      assertEquals(message?.body, "work");
      for (const done of [...early, message!]) await done.acknowledge();
    }
  }),

  topic("abort", { requires: ["delay"] })(
    "a receiver that is aborted leaves the due times to the others",
    async (bench) => {
      const controller = new AbortController();
      const leaving = await bench.waiting({ signal: controller.signal });
      const remaining = await bench.waiting();
      const id = await bench.mailbox.send("later", { delayMs: bench.ms(4) });
      controller.abort();
      assertEquals(await bench.soon(leaving.received), []);
      assertEquals((await bench.soon(remaining.received))[0]?.id, id);
    },
  ),

  holds("nothing stays attached to the caller's signal", async (bench) => {
    const { signal, listening } = watchedSignal();
    const { received } = await bench.waiting({ signal });
    await bench.mailbox.send("work");
    await bench.soon(received);
    const vain = bench.mailbox.receive({ signal, waitTimeMs: bench.ms(1) });
    await bench.soon(vain);
    assertEquals(listening(), 0, "listeners left on the signal");
  }),
];

/** Each body was received, or is there to receive now, with its first attempt not yet spent. */
async function seenOnce(
  bench: Bench,
  bodies: readonly unknown[],
  received: readonly Message<unknown>[],
): Promise<void> {
  const rest = await bench.soon(
    bench.mailbox.receive({ maxMessages: 10, waitTimeMs: received.length > 0 ? 0 : bench.ms(5) }),
  );
  const all = [...received, ...rest];
  assertEquals(all.map(({ body }) => body).sort(), [...bodies]);
  if (bench.mailbox.capabilities.restoresAttempts) {
    assertEquals(all.map(({ deliveryCount }) => deliveryCount), all.map(() => 1));
  }
  for (const message of all) await message.acknowledge();
}

/** A signal that counts who listens to it. */
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
