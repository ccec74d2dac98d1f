import { assert, assertEquals } from "@std/assert";
import { invalid, type MailboxCase, type Setup, topic } from "./mailbox_case.ts";

const paused = topic("pause", { requires: ["pause"] });
const limited = topic("rate limit", { requires: ["rateLimit"] });

/** A paused mailbox delivers to no process. */
export const pause: readonly MailboxCase[] = [
  paused("a paused mailbox stores messages and delivers none", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("held");
    const held = await setup.receiveOne();
    await mailbox.pause();
    await mailbox.pause();
    assertEquals((await mailbox.stats()).paused, true);
    await mailbox.send("work");
    await held.release();
    await setup.assertNoneVisible();
    await mailbox.resume();
    assertEquals((await mailbox.stats()).paused, false);
    assertEquals((await setup.receiveAndAcknowledge()).sort(), ["held", "work"]);
  }),

  topic("pause", { requires: ["pause"], needs: ["sibling"] })(
    "pause and resume reach all processes, and wake their receives",
    async (setup) => {
      const sibling = await setup.sibling();
      await setup.mailbox.pause();
      await setup.mailbox.send("work");
      const { received } = await setup.waiting({}, sibling);
      await setup.mailbox.resume();
      assertEquals((await setup.soon(received)).map(({ body }) => body), ["work"]);
    },
  ),

  paused("a purge does not resume the mailbox", async (setup) => {
    await setup.mailbox.pause();
    await setup.mailbox.purge();
    await setup.mailbox.send("work");
    await setup.assertNoneVisible();
  }),

  paused("a pause with a time ends by itself", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("work");
    await mailbox.pause({ forMs: setup.ms(4) });
    const { paused, pausedForMs = Infinity } = await mailbox.stats();
    assertEquals(paused, true);
    assert(pausedForMs > 0 && pausedForMs <= setup.ms(4), `${pausedForMs} ms`);
    await setup.assertNoneVisible();
    const { received } = await setup.waiting();
    await setup.pass(4);
    assertEquals((await setup.soon(received)).map(({ body }) => body), ["work"]);
    const after = await mailbox.stats();
    assertEquals([after.paused, after.pausedForMs], [false, undefined]);
  }),

  paused("a pause does not shorten a longer one", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("work");
    await mailbox.pause({ forMs: setup.ms(100) });
    await mailbox.pause({ forMs: setup.ms(1) });
    await setup.pass(2);
    await setup.assertNoneVisible();
    await mailbox.pause();
    await mailbox.pause({ forMs: setup.ms(1) });
    assertEquals((await mailbox.stats()).pausedForMs, undefined, "until it is resumed");
    await setup.pass(2);
    await setup.assertNoneVisible();
    await mailbox.resume();
    assertEquals(await setup.receiveAndAcknowledge(), ["work"]);
  }),

  paused("the duration of a pause is checked", async ({ mailbox }) => {
    for (const forMs of [-1, NaN, "1 s" as unknown as number]) {
      await invalid(() => mailbox.pause({ forMs }));
    }
    assertEquals((await mailbox.stats()).paused, false);
  }),
];

/** Receives all that the limit allows, in receives of `max`. Returns the number of messages. */
async function receiveAllowed(
  { mailbox }: Setup,
  max: number,
  from: readonly Pick<typeof mailbox, "receive">[] = [mailbox],
): Promise<number> {
  let count = 0;
  for (let found = -1; found !== 0; count += found) {
    const received = await Promise.all(from.map((it) => it.receive({ maxMessages: max })));
    found = received.flat().length;
    await Promise.all(received.flat().map((message) => message.acknowledge()));
  }
  return count;
}

/** A rate limit bounds the deliveries to all processes together. */
export const rateLimit: readonly MailboxCase[] = [
  limited(
    "a rate limit bounds the deliveries of a period, and the next period goes on",
    async (setup) => {
      const { mailbox } = setup;
      const limit = { max: 5, perMs: setup.ms(20) };
      await mailbox.rateLimit(limit);
      assertEquals((await mailbox.stats()).rateLimit, limit);
      await mailbox.sendMany(Array.from({ length: 12 }, (_, i) => i));
      assertEquals(await receiveAllowed(setup, 3), 5);
      await setup.pass(10);
      await setup.assertNoneVisible();
      await setup.pass(11);
      assertEquals(await receiveAllowed(setup, 100), 5);
      const { waiting } = await mailbox.stats();
      assertEquals(waiting, 2);
    },
  ),

  limited("a receive waits until the rate limit allows a message", async (setup) => {
    const { mailbox } = setup;
    await mailbox.rateLimit({ max: 1, perMs: setup.ms(5) });
    await mailbox.sendMany(["first", "second"]);
    assertEquals(await setup.receiveAndAcknowledge(), ["first"]);
    const { received } = await setup.waiting();
    await setup.pass(5);
    assertEquals((await setup.soon(received)).map(({ body }) => body), ["second"]);
  }),

  limited(
    "without a rate limit all messages are delivered, and waiting receives learn of it",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.rateLimit({ max: 1, perMs: setup.ms(1_000) });
      await mailbox.sendMany(["first", "second"]);
      assertEquals(await setup.receiveAndAcknowledge(), ["first"]);
      const { received } = await setup.waiting();
      await mailbox.rateLimit(false);
      assertEquals((await setup.soon(received)).map(({ body }) => body), ["second"]);
      assertEquals((await mailbox.stats()).rateLimit, undefined);
    },
  ),

  topic("rate limit", { requires: ["rateLimit"], needs: ["sibling"] })(
    "processes share a rate limit, also when they receive at the same time",
    async (setup) => {
      const { mailbox } = setup;
      const siblings = [mailbox, await setup.sibling(), await setup.sibling()];
      await mailbox.rateLimit({ max: 10, perMs: setup.ms(1_000) });
      await mailbox.sendMany(Array.from({ length: 40 }, (_, i) => i));
      assertEquals(await receiveAllowed(setup, 4, siblings), 10);
    },
  ),

  limited("a rate limit is checked", async ({ mailbox }) => {
    const limits = [{ max: 0, perMs: 1 }, { max: 1, perMs: 0 }, { max: 1.5, perMs: 1 }, true];
    for (const limit of limits) await invalid(() => mailbox.rateLimit(limit as never));
    assertEquals((await mailbox.stats()).rateLimit, undefined);
  }),
];
