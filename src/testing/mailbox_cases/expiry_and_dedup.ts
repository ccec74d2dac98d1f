import { assert, assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import { invalid, type MailboxCase, refused, topic } from "./mailbox_case.ts";

const expiring = topic("expiry");
const remembered = topic("deduplication", { requires: ["dedup", "dedupWindow"] });
const DAY_MS = 86_400_000;

/** A message is not delivered after it has expired. */
export const expiry: readonly MailboxCase[] = [
  expiring("an expired message is not delivered, and does not delay others", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("old", { expiresInMs: setup.ms(2), onExpired: "drop" });
    await mailbox.send("fresh", { expiresInMs: setup.ms(1_000) });
    await setup.pass(2.5);
    const message = await setup.receiveOne({ waitTimeMs: setup.ms(10) });
    assertEquals(message.body, "fresh");
    assertEquals(message.expiresAt, message.enqueuedAt + setup.ms(1_000));
    await message.acknowledge();
    assertEquals(await setup.receiveAndAcknowledge(), []);
  }),

  topic("expiry", { needs: ["deadLetters"] })(
    "an expired message becomes a dead letter with the reason expired",
    async (setup) => {
      const { mailbox } = setup;
      const headers = { tenant: "acme" };
      const { id } = await mailbox.send("old", { expiresInMs: setup.ms(2), headers });
      await setup.pass(2.5);
      assertEquals(await setup.soon(mailbox.receive({ waitTimeMs: setup.ms(1) })), []);
      const { body: letter } = await setup.receiveOne(
        { waitTimeMs: setup.ms(10) },
        mailbox.deadLetters,
      );
      assertEquals([letter.id, letter.body, letter.reason], [id, "old", "expired"]);
      assertEquals([letter.headers, letter.expiresInMs], [headers, setup.ms(2)]);
    },
  ),

  topic("expiry", { needs: ["deadLetters"] })(
    "a redriven message has its whole time again",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("old", { expiresInMs: setup.ms(4) });
      await setup.pass(4.5);
      assertEquals(await setup.soon(mailbox.receive({ waitTimeMs: setup.ms(0.5) })), []);
      assertEquals(await redrive(mailbox), 1);
      assertEquals((await setup.receiveOne({ waitTimeMs: setup.ms(2) })).body, "old");
    },
  ),

  expiring(
    "a receive that finds only expired messages returns none and more follow",
    async (setup) => {
      const { mailbox } = setup;
      const options = { expiresInMs: setup.ms(2), onExpired: "drop" } as const;
      await mailbox.sendMany(["old", "older"], options);
      await mailbox.send("fresh");
      await setup.pass(2.5);
      assertEquals((await setup.receiveOne({ waitTimeMs: setup.ms(10) })).body, "fresh");
    },
  ),

  expiring("an invalid expiry is refused, and nothing is stored", async ({ mailbox }) => {
    for (const expiresInMs of [0, -1, NaN, Infinity, "5" as unknown as number]) {
      await invalid(() => mailbox.send("work", { expiresInMs }));
    }
    await invalid(() => mailbox.send("work", { onExpired: "burn" as never }));
    assertEquals(await mailbox.approximateCount(), 0);
  }),
];

/** The mailbox remembers ids, and messages can be sent for a later time. */
export const deduplication: readonly MailboxCase[] = [
  remembered(
    "an id is remembered for dedupMs, also after its message was handled",
    async (setup) => {
      const { mailbox } = setup;
      const options = { id: "order-7", dedupMs: setup.ms(10) };
      assert((await mailbox.send("first", options)).stored);
      assert(!(await mailbox.send("waiting", options)).stored);
      assertEquals(await setup.receiveAndAcknowledge(), ["first"]);
      assert(!(await mailbox.send("handled", options)).stored);
      assertEquals(await mailbox.approximateCount(), 0);
      await setup.pass(10.5);
      assert((await mailbox.send("forgotten", options)).stored);
      assertEquals(await setup.receiveAndAcknowledge(), ["forgotten"]);
    },
  ),

  remembered("a send without dedupMs ignores remembered ids", async (setup) => {
    const { mailbox } = setup;
    const id = "order-7";
    await mailbox.send("first", { id, dedupMs: setup.ms(100) });
    await setup.receiveAndAcknowledge();
    assert((await mailbox.send("second", { id })).stored);
    assert(!(await mailbox.send("third", { id })).stored, "the second is stored");
  }),

  remembered("each message of a batch has its own id and window", async (setup) => {
    const { mailbox } = setup;
    const dedupMs = setup.ms(100);
    const ids = ["a", "b", "a"];
    const sent = await mailbox.sendMany(ids, (_, i) => ({ id: ids[i]!, dedupMs }));
    assertEquals(sent.map(({ stored }) => stored), [true, true, false]);
    await setup.receiveAndAcknowledge();
    const again = await mailbox.sendMany(["b", "c"], (body) => ({ id: String(body), dedupMs }));
    assertEquals(again.map(({ stored }) => stored), [false, true]);
  }),

  remembered("a purge forgets the ids", async (setup) => {
    const options = { id: "order-7", dedupMs: setup.ms(100) };
    await setup.mailbox.send("first", options);
    await setup.mailbox.purge();
    assert((await setup.mailbox.send("second", options)).stored);
  }),

  topic("deduplication", { requires: ["dedup", "dedupWindow"], needs: ["deadLetters"] })(
    "a redriven message keeps its id while the mailbox remembers it",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("work", { id: "order-7", dedupMs: setup.ms(100) });
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
      assertEquals(await redrive(mailbox), 1);
      assertEquals((await setup.receiveOne()).id, "order-7");
    },
  ),

  topic("deduplication", { requires: ["dedup", "dedupWindow"], needs: ["sibling"] })(
    "concurrent sends of two processes with a remembered id store one message",
    async (setup) => {
      const sibling = await setup.sibling();
      const options = { id: "order-7", dedupMs: setup.ms(100) };
      const senders = [setup.mailbox, sibling, setup.mailbox, sibling];
      const sent = await Promise.all(senders.map((mailbox, i) => mailbox.send(i, options)));
      assertEquals(sent.filter(({ stored }) => stored).length, 1);
    },
  ),

  topic("deduplication")("dedupMs needs an id", async ({ mailbox }) => {
    await invalid(() => mailbox.send("work", { dedupMs: 1_000 }));
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("ids and delays", { requires: ["delay"] })(
    "a message is hidden until deliverAt",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("past", { deliverAt: 0 });
      assertEquals(await setup.receiveAndAcknowledge(), ["past"]);
      // The clock of the engine is not known here: measure it by a message.
      await mailbox.send("now");
      const { enqueuedAt } = await setup.receiveOne();
      await mailbox.send("later", { deliverAt: new Date(enqueuedAt + 10 * DAY_MS / 24) });
      await setup.assertNoneVisible();
      await invalid(() => mailbox.send("work", { deliverAt: NaN }));
      await invalid(() => mailbox.send("work", { deliverAt: "today" as never }));
      await invalid(() => mailbox.send("work", { deliverAt: enqueuedAt, delayMs: 1 }));
      assertEquals(await mailbox.approximateCount(), 2);
    },
  ),

  topic("ids and delays", { requires: ["longDelays"] })(
    "a delay may be longer than twelve hours",
    async (setup) => {
      await setup.mailbox.send("in a month", { delayMs: 30 * DAY_MS });
      await setup.mailbox.send("work");
      const message = await setup.receiveOne();
      await message.nack({ delayMs: 30 * DAY_MS });
      await setup.assertNoneVisible();
      assertEquals(await setup.mailbox.approximateCount(), 2);
    },
  ),

  topic("bounds")(
    "an option that the engine cannot do is refused, and nothing is stored",
    async (setup) => {
      const { mailbox } = setup;
      const { keys, priorities, dedupWindow, longDelays } = mailbox.capabilities;
      if (!keys) await refused("InvalidParameterError", () => mailbox.send("work", { key: "a" }));
      if (!priorities) {
        await refused("InvalidParameterError", () => mailbox.send("work", { priority: 1 }));
      }
      if (!dedupWindow) {
        await refused("InvalidParameterError", () => mailbox.send("work", { id: "a", dedupMs: 1 }));
      }
      if (!longDelays) {
        await refused("InvalidParameterError", () => mailbox.send("work", { delayMs: DAY_MS }));
      }
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),
];
