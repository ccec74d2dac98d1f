import { assert, assertEquals } from "@std/assert";
import type { Message } from "../../mailbox/mailbox.ts";
import { type MailboxCase, refused, topic } from "./mailbox_case.ts";

const holds = topic("visibility", { requires: ["perReceiveVisibility"] });
const fenced = topic("visibility", { requires: ["perReceiveVisibility", "fencedAck"] });

/** A received message is invisible to other receivers until its visibility timeout passes. */
export const visibility: readonly MailboxCase[] = [
  holds("a received message is hidden until its visibility timeout passes", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(100) });
    await setup.assertNoneVisible();
    await setup.pass(1);
    await setup.assertNoneVisible();
    await message.acknowledge();
  }),

  holds("a message is visible again as soon as its visibility timeout passes", async (setup) => {
    await setup.mailbox.send("work");
    await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
    await setup.pass(1);
    assertEquals((await setup.receiveOne()).deliveryCount, 2);
  }),

  holds("each receive has its own visibility timeout", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany(["a", "b"]);
    // The short one last: on a busy machine it could end before the other receive.
    const long = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(100) });
    const short = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
    await setup.pass(1);
    assertEquals((await setup.receiveOne()).id, short.id);
    await setup.assertNoneVisible();
    await long.acknowledge();
  }),

  holds("a receive that waited has its own visibility timeout, too", async (setup) => {
    const long = await setup.waiting({ visibilityTimeoutMs: setup.ms(100) });
    // Long enough for a slow machine: the other receive must not get the message again.
    const short = await setup.waiting({ visibilityTimeoutMs: setup.ms(5) });
    await setup.mailbox.send("a");
    await setup.mailbox.send("b");
    const [held] = await setup.soon(long.received);
    const [expired] = await setup.soon(short.received);
    // Waits: the lease of a message that was handed over may begin a moment after its arrival.
    const [again] = await setup.soon(setup.mailbox.receive({ waitTimeMs: setup.ms(20) }));
    assertEquals([again?.id, again?.deliveryCount], [expired?.id, 2]);
    await setup.assertNoneVisible();
    await held?.acknowledge();
  }),

  holds("an extended lease lasts longer", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
    await message.extendVisibility(setup.ms(100));
    await setup.pass(3);
    await setup.assertNoneVisible();
    await message.acknowledge();
  }),

  holds("an extension is measured from now, not from the end of the lease", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
    await message.extendVisibility(setup.ms(4));
    await setup.pass(4);
    assertEquals((await setup.receiveOne()).deliveryCount, 2);
  }),

  holds("an extension never shortens a lease", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(100) });
    await message.extendVisibility(setup.ms(1));
    await message.extendVisibility(0);
    await setup.pass(1);
    await setup.assertNoneVisible();
    await message.acknowledge();
  }),

  holds("an extension changes the lease of no other message", async (setup) => {
    await setup.mailbox.sendMany(["a", "b"]);
    const options = { maxMessages: 2, visibilityTimeoutMs: setup.ms(3) };
    const [extended, other] = await setup.mailbox.receive(options);
    await extended!.extendVisibility(setup.ms(100));
    await setup.pass(3);
    assertEquals((await setup.receiveOne()).id, other!.id);
    await setup.assertNoneVisible();
  }),

  holds("an extension can be repeated", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
    // More passes than one extension lasts, and each leaves time for a slow machine.
    for (let i = 0; i < 9; i++) {
      await message.extendVisibility(setup.ms(8));
      await setup.pass(1);
    }
    await setup.assertNoneVisible();
    await message.acknowledge();
  }),

  fenced("a visibility timeout of 0 delivers a message and does not hide it", async (setup) => {
    await setup.mailbox.send("work");
    const first = await setup.receiveOne({ visibilityTimeoutMs: 0 });
    const second = await setup.receiveOne();
    assertEquals(second.deliveryCount, 2);
    await refused("ReceiptHandleExpiredError", () => first.acknowledge());
    await second.acknowledge();
  }),

  holds("a batch with a visibility timeout of 0 has each message once", async (setup) => {
    await setup.mailbox.sendMany([1, 2, 3]);
    const batch = await setup.mailbox.receive({ maxMessages: 10, visibilityTimeoutMs: 0 });
    assertEquals(batch.map(({ body }) => body).sort(), [1, 2, 3]);
  }),
];

type Act = (message: Message<unknown>) => Promise<unknown>;

const SETTLING: Readonly<Record<string, Act>> = {
  acknowledge: (message) => message.acknowledge(),
  nack: (message) => message.nack(),
  release: (message) => message.release(),
  "dead-letter": (message) => message.deadLetter({ reason: "test" }),
};
const OTHER: Readonly<Record<string, Act>> = {
  extend: (message) => message.extendVisibility(60_000),
  "save a checkpoint of": (message) => message.saveCheckpoint("stale"),
};

const settled = topic("receipt handles");
const handles = topic("receipt handles", { requires: ["perReceiveVisibility"] });

/** Every delivery has its own receipt handle, which is valid until the lease ends. */
export const receiptHandles: readonly MailboxCase[] = [
  handles("every delivery has its own receipt handle", async (setup) => {
    await setup.mailbox.sendMany(["a", "b"]);
    const seen = new Set<string>();
    for (let round = 1; round <= 3; round++) {
      const options = { maxMessages: 2, visibilityTimeoutMs: setup.ms(1) };
      for (const { receiptHandle } of await setup.mailbox.receive(options)) {
        assert(receiptHandle.length > 0, "a receipt handle is not empty");
        seen.add(receiptHandle);
      }
      assertEquals(seen.size, 2 * round);
      await setup.pass(1);
    }
  }),

  ...Object.entries({ ...SETTLING, ...OTHER }).flatMap(([what, act]) => {
    const gate = { requires: ["perReceiveVisibility", "fencedAck"] } as const;
    const fenced = topic(
      "receipt handles",
      what === "dead-letter" ? { ...gate, needs: ["deadLetters"] } : gate,
    );
    return [
      fenced(
        `a delivery cannot ${what} its message after its visibility timeout`,
        async (setup) => {
          await setup.mailbox.send("work");
          const stale = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
          await setup.pass(1);
          await refused("ReceiptHandleExpiredError", () => act(stale));
          assertEquals(stale.finalized, false);
          const fresh = await setup.receiveOne();
          assertEquals([fresh.deliveryCount, fresh.checkpoint], [2, undefined], "nothing changed");
        },
      ),

      fenced(`a delivery cannot ${what} a message that was delivered again`, async (setup) => {
        await setup.mailbox.send("work");
        const stale = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(1) });
        await setup.pass(1);
        const fresh = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(100) });
        await refused("ReceiptHandleExpiredError", () => act(stale));
        await refused("ReceiptHandleExpiredError", () => act(stale));
        await setup.assertNoneVisible();
        assertEquals(await setup.mailbox.approximateCount(), 1);
        assertEquals(await setup.mailbox.deadLetters?.approximateCount() ?? 0, 0);
        await fresh.acknowledge();
        assertEquals(await setup.mailbox.approximateCount(), 0);
      }),
    ];
  }),

  ...Object.entries(SETTLING).map(([what, act]) => {
    const once = topic("receipt handles", what === "dead-letter" ? { needs: ["deadLetters"] } : {});
    return once(`a delivery is final after it did ${what} its message`, async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne();
      await act(message);
      assertEquals(message.finalized, true);
      for (const again of Object.values({ ...SETTLING, ...OTHER })) {
        await refused("MessageFinalizedError", () => again(message));
      }
      await refused("MessageFinalizedError", () => message.reply("late"));
    });
  }),

  settled("the second of two concurrent settlements of a delivery is refused", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne();
    const acknowledged = message.acknowledge();
    await refused("MessageFinalizedError", () => message.nack());
    await acknowledged;
    assertEquals(message.finalized, true);
    assertEquals(await setup.mailbox.approximateCount(), 0);
  }),

  ...(["acknowledgeMany", "releaseMany", "extendMany"] as const).map((many) => {
    const fenced = topic("receipt handles", {
      requires: ["perReceiveVisibility", "fencedAck"],
      needs: [many],
    });
    return fenced(
      `${many} returns for each message whether its receipt handle was valid`,
      async (setup) => {
        const { mailbox } = setup;
        await mailbox.sendMany(["fresh", "fresh too", "stale", "stale too"]);
        const fresh = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: setup.ms(100) });
        // In one call, and last: a slow machine may need longer than their visibility timeout.
        const stale = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: setup.ms(1) });
        const messages = [stale[0]!, fresh[0]!, stale[1]!, fresh[1]!];
        await setup.pass(1);
        const ids = stale.map(({ id }) => id);
        const back = await mailbox.receive({ maxMessages: 10 });
        assertEquals(back.map(({ id }) => id).sort(), ids.sort());
        const isValid = [false, true, false, true];
        assertEquals(await mailbox[many](messages, setup.ms(200)), isValid);
        const final = many === "extendMany" ? isValid.map(() => false) : isValid;
        assertEquals(messages.map(({ finalized }) => finalized), final);
        assertEquals(await mailbox.approximateCount(), many === "acknowledgeMany" ? 2 : 4);
        assertEquals(
          (await mailbox.receive({ maxMessages: 10 })).length,
          many === "releaseMany" ? 2 : 0,
        );
        assertEquals(await mailbox[many]([], 0), []);
      },
    );
  }),

  topic("receipt handles", { needs: ["acknowledgeMany"] })(
    "acknowledgeMany returns false for a settled message and acknowledges the others",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.sendMany(["a", "b"]);
      const [a, b] = await mailbox.receive({ maxMessages: 2 });
      await a!.acknowledge();
      assertEquals(await mailbox.acknowledgeMany([a!, b!]), [false, true]);
      assertEquals([b!.finalized, await mailbox.approximateCount()], [true, 0]);
    },
  ),

  topic("receipt handles", { requires: ["fencedAck"], needs: ["extendMany"] })(
    "extendMany does not extend a nacked message",
    async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne();
      await message.nack({ delayMs: setup.ms(3) });
      assertEquals(await setup.mailbox.extendMany([message], setup.ms(100)), [false]);
      await setup.pass(3);
      assertEquals((await setup.receiveOne()).id, message.id);
    },
  ),
];
