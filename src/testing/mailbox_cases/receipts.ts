import { assert, assertEquals } from "@std/assert";
import type { Message } from "../../mailbox/mailbox.ts";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

type Act = (message: Message<unknown>) => Promise<unknown>;

const SETTLING: Readonly<Record<string, Act>> = {
  acknowledge: (message) => message.acknowledge(),
  nack: (message) => message.nack(),
  release: (message) => message.release(),
  bury: (message) => message.deadLetter({ reason: "test" }),
};
const KEEPING: Readonly<Record<string, Act>> = {
  extend: (message) => message.extendVisibility(60_000),
  "save the progress of": (message) => message.saveCheckpoint("stale progress"),
};

const holds = topic("receipts");
const leased = topic("receipts", { requires: ["perReceiveVisibility"] });

/** Every delivery has a receipt of its own, and only the last one has a say, until its lease ends. */
export const receipts: readonly MailboxCase[] = [
  leased("every delivery has a receipt of its own", async (bench) => {
    await bench.mailbox.sendMany(["a", "b"]);
    const seen = new Set<string>();
    for (let round = 1; round <= 3; round++) {
      const options = { maxMessages: 2, visibilityTimeoutMs: bench.ms(1) };
      for (const { receiptHandle } of await bench.mailbox.receive(options)) {
        assert(receiptHandle.length > 0, "a receipt is not empty");
        seen.add(receiptHandle);
      }
      assertEquals(seen.size, 2 * round);
      await bench.pass(1);
    }
  }),

  ...Object.entries({ ...SETTLING, ...KEEPING }).flatMap(([what, act]) => {
    const gate = { requires: ["perReceiveVisibility", "fencedAck"] } as const;
    const fenced = topic("receipts", what === "bury" ? { ...gate, needs: ["deadLetters"] } : gate);
    return [
      fenced(`nobody can ${what} a message from the moment the lease ends`, async (bench) => {
        await bench.mailbox.send("work");
        const stale = await bench.take({ visibilityTimeoutMs: bench.ms(1) });
        await bench.pass(1);
        await refused("ReceiptHandleExpiredError", () => act(stale));
        assertEquals(stale.finalized, false);
        const fresh = await bench.take();
        assertEquals([fresh.deliveryCount, fresh.checkpoint], [2, undefined], "nothing changed");
      }),

      fenced(`nobody can ${what} a message that another has taken`, async (bench) => {
        await bench.mailbox.send("work");
        const stale = await bench.take({ visibilityTimeoutMs: bench.ms(1) });
        await bench.pass(1);
        const fresh = await bench.take({ visibilityTimeoutMs: bench.ms(100) });
        await refused("ReceiptHandleExpiredError", () => act(stale));
        await refused("ReceiptHandleExpiredError", () => act(stale));
        await bench.hidden();
        assertEquals(await bench.mailbox.approximateCount(), 1);
        assertEquals(await bench.mailbox.deadLetters?.approximateCount() ?? 0, 0);
        await fresh.acknowledge();
        assertEquals(await bench.mailbox.approximateCount(), 0);
      }),
    ];
  }),

  ...Object.entries(SETTLING).map(([what, act]) => {
    const once = topic("receipts", what === "bury" ? { needs: ["deadLetters"] } : {});
    return once(`whoever did ${what} a message is done with it`, async (bench) => {
      await bench.mailbox.send("work");
      const message = await bench.take();
      await act(message);
      assertEquals(message.finalized, true);
      for (const again of Object.values({ ...SETTLING, ...KEEPING })) {
        await refused("MessageFinalizedError", () => again(message));
      }
      await refused("MessageFinalizedError", () => message.reply("late"));
    });
  }),

  holds("of two that settle a delivery at once one is refused", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take();
    const acknowledged = message.acknowledge();
    await refused("MessageFinalizedError", () => message.nack());
    await acknowledged;
    assertEquals(message.finalized, true);
    assertEquals(await bench.mailbox.approximateCount(), 0);
  }),

  ...(["acknowledgeMany", "releaseMany", "extendMany"] as const).map((many) => {
    const fenced = topic("receipts", {
      requires: ["perReceiveVisibility", "fencedAck"],
      needs: [many],
    });
    return fenced(`${many} tells for each whether its receipt was good`, async (bench) => {
      const { mailbox } = bench;
      await mailbox.sendMany(["fresh", "fresh too", "stale", "stale too"]);
      const fresh = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: bench.ms(100) });
      // In one call, and last: a slow machine may take longer than their visibility timeout.
      const stale = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: bench.ms(1) });
      const messages = [stale[0]!, fresh[0]!, stale[1]!, fresh[1]!];
      await bench.pass(1);
      const ids = stale.map(({ id }) => id);
      const back = await mailbox.receive({ maxMessages: 10 });
      assertEquals(back.map(({ id }) => id).sort(), ids.sort());
      const stillGood = [false, true, false, true];
      assertEquals(await mailbox[many](messages, bench.ms(200)), stillGood);
      const settled = many === "extendMany" ? stillGood.map(() => false) : stillGood;
      assertEquals(messages.map(({ finalized }) => finalized), settled);
      assertEquals(await mailbox.approximateCount(), many === "acknowledgeMany" ? 2 : 4);
      assertEquals(
        (await mailbox.receive({ maxMessages: 10 })).length,
        many === "releaseMany" ? 2 : 0,
      );
      assertEquals(await mailbox[many]([], 0), []);
    });
  }),

  topic("receipts", { needs: ["acknowledgeMany"] })(
    "a settled message among many is told, and does not hold up the others",
    async (bench) => {
      const { mailbox } = bench;
      await mailbox.sendMany(["a", "b"]);
      const [a, b] = await mailbox.receive({ maxMessages: 2 });
      await a!.acknowledge();
      assertEquals(await mailbox.acknowledgeMany([a!, b!]), [false, true]);
      assertEquals([b!.finalized, await mailbox.approximateCount()], [true, 0]);
    },
  ),

  topic("receipts", { requires: ["fencedAck"], needs: ["extendMany"] })(
    "an extension of many leaves out what was given back",
    async (bench) => {
      await bench.mailbox.send("work");
      const message = await bench.take();
      await message.nack({ delayMs: bench.ms(3) });
      assertEquals(await bench.mailbox.extendMany([message], bench.ms(100)), [false]);
      await bench.pass(3);
      assertEquals((await bench.take()).id, message.id);
    },
  ),
];
