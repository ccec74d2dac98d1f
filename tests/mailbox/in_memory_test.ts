import { describe, it } from "node:test";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MailboxFullError } from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { skippedMailboxCases, VirtualClock } from "../../src/testing/mod.ts";
import { hostMailboxCases, onVirtualClock } from "./_hosts.ts";

const make = onVirtualClock((options) => new InMemoryMailbox<unknown>("orders", options));

describe("InMemoryMailbox", () => {
  hostMailboxCases(make, { engine: "memory" });

  it("a mailbox in memory has no siblings and no codec, and lacks nothing else", async () => {
    const skipped = await skippedMailboxCases(make);
    const reasons = new Set(skipped.map(({ why }) => why));
    assertEquals([...reasons].sort(), [
      "there is no maxBodyBytes",
      "there is no sendRaw",
      "there is no sibling",
    ]);
  });

  it("refuses to send when it is full, and evicts nothing", async () => {
    const mailbox = new InMemoryMailbox<number>("small", { maxSize: 3 });
    await mailbox.sendMany([1, 2]);
    await assertRejects(() => mailbox.sendMany([3, 4]), MailboxFullError, "holds 2 of 3");
    await mailbox.send(3);
    await assertRejects(() => mailbox.send(4), MailboxFullError, '"small" is full');
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), [1, 2, 3]);
    await assertRejects(() => mailbox.send(4), MailboxFullError, "", "messages in flight count");
    await messages[0]!.release();
    await messages[1]!.nack();
    await messages[2]!.acknowledge();
    await mailbox.send(4);
    assertEquals(await mailbox.approximateCount(), 3);
  });

  it("keeps the order of a key among messages whose delay ends together", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    await mailbox.sendMany([1, 2, 3, 4, 5], { key: "a", delayMs: 10 });
    await clock.advance(10);
    const received = [];
    for (let i = 0; i < 5; i++) {
      const [message] = await mailbox.receive();
      received.push(message!.body);
      await message!.acknowledge();
    }
    assertEquals(received, [1, 2, 3, 4, 5]);
  });

  it("accepts a duplicate of a stored message, also when it is full", async () => {
    const mailbox = new InMemoryMailbox<number>("small", { maxSize: 1 });
    await mailbox.send(1, { id: "one" });
    assertEquals((await mailbox.send(1, { id: "one" })).id, "one");
    await assertRejects(() => mailbox.send(2, { id: "two" }), MailboxFullError);
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("maxSize does not limit the dead letters", async () => {
    const mailbox = new InMemoryMailbox<number>("small", { maxSize: 1 });
    for (const body of [1, 2, 3]) {
      await mailbox.send(body);
      const [message] = await mailbox.receive();
      await message!.deadLetter({ reason: "test" });
    }
    assertEquals(await mailbox.deadLetters.approximateCount(), 3);
  });

  it("stores a body without copying it", async () => {
    const mailbox = new InMemoryMailbox<() => string>();
    const body = () => "called";
    await mailbox.send(body);
    const [message] = await mailbox.receive();
    assertEquals(message!.body, body);
  });

  it("refuses an invalid name and an invalid maxSize", () => {
    for (const name of ["", " ", "it's", 'a"b', "a\nb", "a\u0000b", "ü", "x".repeat(201)]) {
      assertThrows(() => new InMemoryMailbox(name), TypeError, "Invalid mailbox name");
    }
    for (const maxSize of [-1, 1.5, NaN]) {
      assertThrows(() => new InMemoryMailbox("orders", { maxSize }), RangeError, String(maxSize));
    }
  });

  it("shares no messages with another mailbox of the same name", async () => {
    await new InMemoryMailbox<number>("orders").send(1);
    assertEquals(await new InMemoryMailbox<number>("orders").approximateCount(), 0);
  });

  it("has one timer for each waiting receive, and no other", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    await mailbox.sendMany([1, 2, 3], { delayMs: 1_000 });
    await mailbox.send(4);
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 5_000 });
    await message!.extendVisibility(9_000);
    assertEquals(clock.pending, 0, "delays and leases need none");
    const waits = [1, 2].map(() => mailbox.receive({ waitTimeMs: Infinity }));
    await clock.settle();
    assertEquals(clock.pending, 2);
    await clock.advance(1_000);
    assertEquals((await Promise.all(waits)).flat().map(({ body }) => body), [1, 2]);
    assertEquals(clock.pending, 0);
  });

  it("an adjusted wall clock changes no lease and no delay", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    await mailbox.sendMany([1, 2]);
    await mailbox.send(3, { delayMs: 1_000 });
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 1_000 });
    clock.stepWallClock(3_600_000);
    assertEquals(
      (await mailbox.receive({ maxMessages: 10 })).length,
      1,
      "only the visible message",
    );
    await message!.acknowledge();
  });
});
