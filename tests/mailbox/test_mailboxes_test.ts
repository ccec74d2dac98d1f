import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { MailboxConnectionError, ReceiptHandleExpiredError } from "../../src/mailbox/errors.ts";
import {
  CollectingMailbox,
  FaultyMailbox,
  NullMailbox,
  VirtualClock,
} from "../../src/testing/mod.ts";
import { hostMailboxCases, type Lack, onVirtualClock } from "./_hosts.ts";

const IN_MEMORY_LACKS: readonly Lack[] = ["sibling", "sendRaw", "maxBodyBytes"];

describe("CollectingMailbox", () => {
  const make = onVirtualClock((options) => new CollectingMailbox<unknown>("all", options));
  hostMailboxCases(make, { lacks: IN_MEMORY_LACKS });

  it("records sent messages, also after they are purged", async () => {
    const mailbox = new CollectingMailbox<string>();
    const { id } = await mailbox.send("a", { delayMs: 5 });
    const ids = (await mailbox.sendMany(["b", "c"], { replyTo: "replies" })).map(({ id }) => id);
    await mailbox.purge();
    assertEquals(mailbox.bodies, ["a", "b", "c"]);
    assertEquals(mailbox.sent, [
      { id, body: "a", options: { delayMs: 5 } },
      { id: ids[0]!, body: "b", options: { replyTo: "replies" } },
      { id: ids[1]!, body: "c", options: { replyTo: "replies" } },
    ]);
  });

  it("does not record a message that was refused", async () => {
    const mailbox = new CollectingMailbox<string>();
    await assertRejects(() => mailbox.send("a", { delayMs: -1 }));
    assertEquals(mailbox.bodies, []);
  });
});

describe("NullMailbox", () => {
  it("drops sent messages", async () => {
    const mailbox = new NullMailbox<string>();
    const sent = [await mailbox.send("a", { id: "one" }), ...await mailbox.sendMany(["b", "c"])];
    const ids = sent.map(({ id }) => id);
    assertEquals([ids[0], new Set(ids).size], ["one", 3]);
    assertEquals(await mailbox.approximateCount(), 0);
    assertEquals(await mailbox.peek(10), []);
    assertEquals(await mailbox.purge(), 0);
    assertEquals(await mailbox.deadLetters.receive(), []);
  });

  it("a receive waits until its wait time passes or the mailbox is closed", async () => {
    const clock = new VirtualClock();
    const mailbox = new NullMailbox<string>("null", { clock });
    assertEquals(await clock.until(mailbox.receive({ waitTimeMs: 20_000 })), []);
    assertEquals(clock.monotonic(), 20_000);
    const received = mailbox.receive({ waitTimeMs: Infinity });
    await mailbox.close();
    assertEquals(await received, []);
    assertEquals(clock.pending, 0);
  });
});

describe("FaultyMailbox", () => {
  const make = onVirtualClock((options) => new FaultyMailbox<unknown>("faulty", options));
  hostMailboxCases(make, { lacks: IN_MEMORY_LACKS });

  it("expire ends a lease, and a waiting receive gets the message", async () => {
    const mailbox = new FaultyMailbox<string>();
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    await mailbox.expire(message!);
    const [again] = await waiting;
    assertEquals([again?.id, again?.deliveryCount], [message!.id, 2]);
    await assertRejects(() => message!.extendVisibility(1_000), ReceiptHandleExpiredError);
    await assertRejects(() => message!.acknowledge(), ReceiptHandleExpiredError);
    await again!.acknowledge();
    await mailbox.expire(again!);
    assertEquals(await mailbox.approximateCount(), 0, "an acknowledged message stays deleted");
  });

  it("expire refuses a message that the mailbox did not deliver", async () => {
    const foreign = { receiptHandle: "unknown" };
    await assertRejects(() => new FaultyMailbox().expire(foreign), TypeError, "unknown");
  });

  it("loses its connection for some calls of some operations", async () => {
    const mailbox = new FaultyMailbox<string>();
    mailbox.loseConnection({ operations: ["send", "count"], calls: 2 });
    assertEquals(await mailbox.receive(), [], "other operations succeed");
    await assertRejects(() => mailbox.send("a"), MailboxConnectionError, "send");
    await assertRejects(() => mailbox.approximateCount(), MailboxConnectionError, "count");
    await mailbox.send("b");
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("loses the answer of a call that the engine carried out", async () => {
    const mailbox = new FaultyMailbox<string>();
    mailbox.loseConnection({ calls: 1, answersOnly: true });
    await assertRejects(() => mailbox.send("a"), MailboxConnectionError);
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("calls hang while the mailbox is frozen, and continue when it thaws", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<string>("faulty", { clock });
    mailbox.freeze("send");
    const sent = mailbox.send("late");
    await clock.settle();
    assertEquals(await mailbox.approximateCount(), 0);
    mailbox.thaw();
    await sent;
    assertEquals(await mailbox.approximateCount(), 1);

    mailbox.freeze();
    const count = mailbox.approximateCount();
    mailbox.loseConnection({ calls: 1 });
    mailbox.thaw();
    await assertRejects(() => count, MailboxConnectionError);
  });
});
