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

  it("remembers what was sent, also once it is gone", async () => {
    const mailbox = new CollectingMailbox<string>();
    const id = await mailbox.send("a", { delayMs: 5 });
    const ids = await mailbox.sendMany(["b", "c"], { replyTo: "replies" });
    await mailbox.purge();
    assertEquals(mailbox.bodies, ["a", "b", "c"]);
    assertEquals(mailbox.sent, [
      { id, body: "a", options: { delayMs: 5 } },
      { id: ids[0]!, body: "b", options: { replyTo: "replies" } },
      { id: ids[1]!, body: "c", options: { replyTo: "replies" } },
    ]);
  });

  it("does not remember what was refused", async () => {
    const mailbox = new CollectingMailbox<string>();
    await assertRejects(() => mailbox.send("a", { delayMs: -1 }));
    assertEquals(mailbox.bodies, []);
  });
});

describe("NullMailbox", () => {
  it("drops what is sent", async () => {
    const mailbox = new NullMailbox<string>();
    const ids = [await mailbox.send("a", { id: "one" }), ...await mailbox.sendMany(["b", "c"])];
    assertEquals([ids[0], new Set(ids).size], ["one", 3]);
    assertEquals(await mailbox.approximateCount(), 0);
    assertEquals(await mailbox.peek(10), []);
    assertEquals(await mailbox.purge(), 0);
    assertEquals(await mailbox.deadLetters.receive(), []);
  });

  it("makes a receiver wait as long as it wants to, or until it is closed", async () => {
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

  it("ends a lease on demand, and whoever waits gets the message", async () => {
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
    assertEquals(await mailbox.approximateCount(), 0, "what is done stays done");
  });

  it("cannot end the lease of a message it has not delivered", async () => {
    const foreign = { receiptHandle: "nobody's" };
    await assertRejects(() => new FaultyMailbox().expire(foreign), TypeError, "nobody's");
  });

  it("loses its connection for so many calls of some operations", async () => {
    const mailbox = new FaultyMailbox<string>();
    mailbox.loseConnection({ operations: ["send", "count"], calls: 2 });
    assertEquals(await mailbox.receive(), [], "others go on");
    await assertRejects(() => mailbox.send("a"), MailboxConnectionError, "send");
    await assertRejects(() => mailbox.approximateCount(), MailboxConnectionError, "count");
    await mailbox.send("b");
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("loses answers where the engine has done its part", async () => {
    const mailbox = new FaultyMailbox<string>();
    mailbox.loseConnection({ calls: 1, answersOnly: true });
    await assertRejects(() => mailbox.send("a"), MailboxConnectionError);
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("hangs while it is frozen, and does what it was asked once it thaws", async () => {
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
