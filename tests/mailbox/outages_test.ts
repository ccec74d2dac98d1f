import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { type Log, silentLog } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import {
  MailboxClosedError,
  MailboxConnectionError,
  ReceiptHandleExpiredError,
} from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { FaultyEngine, FaultyMailbox, VirtualClock } from "../../src/testing/mod.ts";

/** Returns a mailbox that fails on demand, and another one on the same storage that does not. */
function setUp(log: Log = silentLog) {
  const clock = new VirtualClock();
  const storage = new MemoryEngine<string>("orders", Infinity, clock);
  const faulty = new FaultyEngine<string>(storage);
  const open = (engine: typeof storage | typeof faulty) =>
    new EngineMailbox<unknown, unknown, string>("orders", engine, jsonCodec(), { clock, log });
  return { clock, storage, faulty, mailbox: open(faulty), sibling: open(storage) };
}

describe("a mailbox whose engine fails", () => {
  it("releases messages that are delivered after an abort", async () => {
    const { clock, faulty, mailbox, sibling } = setUp();
    await mailbox.sendMany([1, 2]);
    const controller = new AbortController();
    faulty.freeze("receive");
    const { signal } = controller;
    const received = mailbox.receive({ maxMessages: 2, waitTimeMs: 60_000, signal });
    await clock.settle();
    controller.abort();
    faulty.thaw();
    assertEquals(await received, []);
    const messages = await sibling.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body, deliveryCount }) => [body, deliveryCount]), [[1, 1], [
      2,
      1,
    ]]);
  });

  it("waits one second for an engine that hangs after an abort, and releases what it delivers later", async () => {
    const { clock, faulty, mailbox } = setUp();
    await mailbox.send("tea");
    faulty.freeze("receive");
    const controller = new AbortController();
    const receiving = mailbox.receive({ waitTimeMs: 20_000, signal: controller.signal });
    await clock.advance(5_000);
    controller.abort();
    assertEquals(await clock.until(receiving), []);
    assertEquals(clock.monotonic(), 6_000);
    faulty.thaw();
    await clock.settle();
    const [message] = await mailbox.receive();
    assertEquals([message?.body, message?.deliveryCount, clock.pending], ["tea", 1, 0]);
  });

  it("releases a batch that is delayed by the dead-lettering of an unreadable body", async () => {
    const { clock, storage, faulty, mailbox, sibling } = setUp();
    storage.send([{ id: "bad", body: "{ not JSON", delayMs: 0, dedup: false }]);
    await mailbox.send("good");
    const controller = new AbortController();
    const { signal } = controller;
    faulty.freeze("receive", "deadLetter");
    const received = mailbox.receive({ maxMessages: 2, signal });
    faulty.thaw();
    faulty.freeze("deadLetter");
    await clock.settle();
    controller.abort();
    await clock.advance(1_000);
    assertEquals(await received, []);
    faulty.thaw();
    await clock.settle();
    const messages = await sibling.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body, deliveryCount }) => [body, deliveryCount]), [["good", 1]]);
    assertEquals(await sibling.deadLetters.approximateCount(), 1);
  });

  it("releases messages that are delivered after a close", async () => {
    const { clock, faulty, mailbox, sibling } = setUp();
    await mailbox.send(1);
    faulty.freeze("receive");
    const received = mailbox.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    const closed = mailbox.close();
    faulty.thaw();
    assertEquals(await received, []);
    await closed;
    assertEquals((await sibling.receive())[0]?.deliveryCount, 1);
  });

  it("another receive gets the message when one fails", async () => {
    const { clock, faulty, mailbox } = setUp();
    const waits = [1, 2].map(() => mailbox.receive({ waitTimeMs: 60_000 }));
    await clock.settle();
    faulty.loseConnection({ operations: ["receive"], calls: 1 });
    await mailbox.send("work");
    const ends = await Promise.allSettled(waits);
    assertEquals(ends.map(({ status }) => status), ["rejected", "fulfilled"]);
    assertEquals(clock.monotonic(), 0, "at once");
    assertEquals(clock.pending, 0);
  });

  it("stores no message of a batch that could not be sent", async () => {
    const { faulty, mailbox } = setUp();
    faulty.loseConnection({ calls: 1 });
    await assertRejects(() => mailbox.sendMany([1, 2]), MailboxConnectionError);
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("a delivery that could not be settled stays open", async () => {
    const { faulty, mailbox } = setUp();
    await mailbox.sendMany([1, 2, 3]);
    const [first, second, third] = await mailbox.receive({ maxMessages: 3 });
    faulty.loseConnection();
    for (
      const act of [
        () => first!.acknowledge(),
        () => first!.nack(),
        () => first!.release(),
        () => first!.deadLetter({ reason: "test" }),
        () => first!.extendVisibility(1_000),
        () => first!.saveCheckpoint(1),
        () => mailbox.acknowledgeMany([second!, third!]),
        () => mailbox.releaseMany([second!, third!]),
      ]
    ) {
      await assertRejects(act, MailboxConnectionError);
    }
    assertEquals([first, second, third].map((it) => it!.finalized), [false, false, false]);
    faulty.restoreConnection();
    await first!.acknowledge();
    assertEquals(await mailbox.acknowledgeMany([second!, third!]), [true, true]);
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("a repeated call reports what the first one did when its answer was lost", async () => {
    const { faulty, mailbox } = setUp();
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    faulty.loseConnection({ operations: ["acknowledge"], calls: 1, answersOnly: true });
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    await assertRejects(() => message!.acknowledge(), ReceiptHandleExpiredError);
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("delivers the other messages when an unreadable body cannot be dead-lettered, and tries again later", async () => {
    const errors: string[] = [];
    const error = (message: string, fields?: Readonly<Record<string, unknown>>) =>
      errors.push(`${message}: ${fields?.["id"]}`);
    const { clock, storage, faulty, mailbox } = setUp({ ...silentLog, error });
    storage.send([{ id: "bad", body: "{ not JSON", delayMs: 0, dedup: false }]);
    await mailbox.send("good");
    faulty.loseConnection({ operations: ["deadLetter"], calls: 1 });
    const messages = await mailbox.receive({ maxMessages: 10, visibilityTimeoutMs: 1_000 });
    assertEquals(messages.map(({ body }) => body), ["good"]);
    assertEquals(errors, ["message could not be dead-lettered: bad"]);
    await messages[0]!.acknowledge();
    await clock.advance(1_000);
    assertEquals(await mailbox.receive(), []);
    const [letter] = await mailbox.deadLetters.receive();
    assertEquals([letter?.body.id, letter?.body.raw], ["bad", "{ not JSON"]);
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("loses no message in an outage", async () => {
    const mailbox = new FaultyMailbox<number>();
    await mailbox.sendMany([1, 2]);
    mailbox.loseConnection();
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => mailbox.send(3), MailboxConnectionError);
    mailbox.restoreConnection();
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), [1, 2]);
  });
});

describe("a mailbox", () => {
  /** A receive is aborted, and the message that arrives afterwards cannot be released. */
  async function arriveTooLate(log?: Log) {
    const it = setUp(log);
    const { clock, faulty, mailbox } = it;
    await mailbox.send(1);
    const controller = new AbortController();
    faulty.freeze("receive");
    const received = mailbox.receive({ waitTimeMs: 60_000, signal: controller.signal });
    await clock.settle();
    controller.abort();
    faulty.loseConnection({ operations: ["release"] });
    faulty.thaw();
    return { ...it, received };
  }

  it("an aborted receive returns [] when late messages cannot be released", async () => {
    const { received } = await arriveTooLate();
    assertEquals(await received, []);
  });

  it("a release that fails after an abort is repeated until the engine is back", async () => {
    const warnings: string[] = [];
    const warn = (text: string) => void warnings.push(text);
    const { clock, faulty, sibling } = await arriveTooLate({ ...silentLog, warn });
    await clock.advance(5_000);
    assertEquals([await sibling.receive(), warnings], [[], ["release failed; trying again"]]);
    faulty.restoreConnection();
    await clock.advance(1_000);
    assertEquals((await sibling.receive()).map(({ body }) => body), [1]);
    assertEquals(clock.pending, 0);
  });

  it("a release is not repeated when the connection of the mailbox was closed", async () => {
    const { clock, faulty, received } = await arriveTooLate();
    await received;
    faulty.release = () => Promise.reject(new MailboxClosedError("the connection is closed"));
    await clock.advance(1_000);
    assertEquals(clock.pending, 0);
  });

  it("a close ends the repetition of a release", async () => {
    const { clock, mailbox, received } = await arriveTooLate();
    await received;
    await mailbox.close();
    assertEquals(clock.pending, 0);
  });

  it("closes its engine after late messages are released", async () => {
    const { clock, faulty, mailbox, sibling } = setUp();
    await mailbox.send(1);
    const closings: number[] = [];
    const close = faulty.close.bind(faulty);
    faulty.close = () => {
      closings.push(clock.monotonic());
      return close();
    };
    faulty.freeze("receive");
    const received = mailbox.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    const closed = mailbox.close();
    await clock.advance(300);
    assertEquals(closings, []);
    faulty.thaw();
    await closed;
    assertEquals([await received, closings], [[], [300]]);
    assertEquals((await sibling.receive()).length, 1);
  });

  it("a message that is listed twice is settled once", async () => {
    const { mailbox } = setUp();
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    assertEquals(await mailbox.acknowledgeMany([message!, message!]), [true, false]);
    assertEquals(message!.finalized, true);
  });

  it("a message with an unreadable checkpoint can be dead-lettered", async () => {
    const { storage, sibling } = setUp();
    await sibling.send(1);
    storage.checkpoint(storage.receive(1, 0).deliveries[0]!, "x");
    const { deliveries } = storage.receive(1, 60_000);
    storage.checkpoint(deliveries[0]!, "{broken");
    storage.nack(deliveries, 0, true);
    const [message] = await sibling.receive();
    await message!.deadLetter({ reason: "test" });
    const [letter] = await sibling.deadLetters.receive();
    assertEquals([letter?.body.body, letter?.body.checkpoint], [1, "{broken"]);
  });

  it("a mailbox with the longest name has dead letters", async () => {
    const mailbox = new InMemoryMailbox("x".repeat(180));
    assertEquals(await mailbox.deadLetters.deadLetters?.approximateCount(), 0);
  });
});
