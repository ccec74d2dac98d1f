import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { InvalidParameterError } from "../../../src/mailbox/errors.ts";
import { clientFor, gate, openForTest, uniqueName, useServer } from "./_sqs.ts";

/** A client that records how many messages each request asks for. */
function recording() {
  const client = clientFor();
  const requested: unknown[] = [];
  const send = (command: { readonly input: object }, options?: object) => {
    const { MaxNumberOfMessages } = command.input as { readonly MaxNumberOfMessages?: number };
    if (MaxNumberOfMessages !== undefined) requested.push(MaxNumberOfMessages);
    return client.send(command as never, options as never);
  };
  return { requested, client: { send } };
}

describe("keys in a FIFO queue", gate, () => {
  useServer();

  // SQS delivers several messages of a group to one request, and locks the group for other requests only.
  // The server of these tests delivers one.
  it("each request asks for one message, and a receive has the order of the sends", async () => {
    const { requested, client } = recording();
    await using it = await openForTest({ name: uniqueName(".fifo"), client, keys: true });
    const bodies = Array.from({ length: 40 }, (_, i) => i);
    await it.mailbox.sendMany(bodies, (body) => ({ key: `customer-${Number(body) % 20}` }));
    const first = await it.mailbox.receive({ maxMessages: 100 });
    assertEquals(first.map(({ body }) => body), bodies.slice(0, 20));
    await it.mailbox.acknowledgeMany(first);
    const second = await it.mailbox.receive({ maxMessages: 100, waitTimeMs: 20_000 });
    assertEquals(second.map(({ body }) => body), bodies.slice(20));
    assertEquals(new Set(requested), new Set([1]));
  });

  it("a key may have any characters and any length", async () => {
    await using it = await openForTest({ name: uniqueName(".fifo"), keys: true });
    const keys = ["a b", "ü", "ü".repeat(500), "\u{1F375}".repeat(99), "x".repeat(129)];
    for (const key of keys) await it.mailbox.sendMany([1, 2], () => ({ key }));
    const messages = await it.mailbox.receive({ maxMessages: 100 });
    assertEquals(messages.map(({ key, body }) => [key, body]), keys.map((key) => [key, 1]));
  });

  it("messages without a key are independent, or in the group of messageGroupId", async () => {
    await using free = await openForTest({ name: uniqueName(".fifo"), keys: true });
    await free.mailbox.sendMany([1, 2]);
    assertEquals((await free.mailbox.receive({ maxMessages: 10 })).length, 2);
    assertEquals(free.mailbox.capabilities.fifo, false, "groups have no order");
    await using grouped = await openForTest({
      ...{ name: uniqueName(".fifo"), keys: true, messageGroupId: "others" },
    });
    await grouped.mailbox.sendMany([1, 2]);
    assertEquals((await grouped.mailbox.receive({ maxMessages: 10 })).length, 1);
  });

  it("a key is refused without the option, and the option on a standard queue", async () => {
    await using it = await openForTest({ name: uniqueName(".fifo") });
    const send = () => it.mailbox.send("work", { key: "a" });
    await assertRejects(send, InvalidParameterError, "capabilities.keys");
    assertEquals(await it.mailbox.approximateCount(), 0);
    const open = () => openForTest({ keys: true });
    await assertRejects(open, InvalidParameterError, "ends in .fifo");
  });

  it("dead letters have no keys, and do not wait for each other", async () => {
    await using it = await openForTest({ name: uniqueName(".fifo"), keys: true });
    const { mailbox } = it;
    assertEquals(mailbox.deadLetters.capabilities.keys, false);
    await mailbox.sendMany([1, 2], () => ({ key: "a" }));
    for (let i = 0; i < 2; i++) {
      await (await mailbox.receive({ waitTimeMs: 20_000 }))[0]!.deadLetter({ reason: "test" });
    }
    assertEquals((await mailbox.deadLetters.receive({ maxMessages: 10 })).length, 2);
  });
});

describe("texts of the user's codec in SQS", gate, () => {
  useServer();

  // Texts that SQS refuses: empty, control characters, noncharacters.
  const texts = ["", "\x01\x1f\x7f", "\uffff\ufffe", '"quoted"', "\u{1F375} plain"];
  const codec = {
    encode: (body: unknown) => typeof body === "string" ? body : `\x01${JSON.stringify(body)}`,
    decode: (text: string) => text.startsWith("\x01{") ? JSON.parse(text.slice(1)) : text,
  };

  it("every text is stored unchanged, as body, checkpoint and dead letter", async () => {
    await using it = await openForTest({ codec });
    const { mailbox } = it;
    await mailbox.sendMany(texts, (text) => ({ checkpoint: text }));
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body).sort(), texts.toSorted());
    assertEquals(messages.map(({ checkpoint }) => checkpoint).sort(), texts.toSorted());
    for (const message of messages) await message.deadLetter({ reason: "test" });
    const letters = await mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => body.body).sort(), texts.toSorted());
  });

  it("the limit counts what is stored, and nothing is stored above it", async () => {
    await using it = await openForTest({ codec, maxBodyBytes: 100 });
    assert((await it.mailbox.send("a".repeat(100))).stored);
    const send = () => it.mailbox.sendMany(["fits", "\x01".repeat(20)]);
    await assertRejects(send, InvalidParameterError, "122 bytes and the limit is 100");
    assertEquals(await it.mailbox.approximateCount(), 1);
  });

  it("messageGroupId gets the body, not its text", async () => {
    const asynchronous = {
      encode: codec.encode,
      decode: (text: string) => Promise.resolve(codec.decode(text)),
    };
    const bodies: unknown[] = [];
    await using it = await openForTest({
      ...{ name: uniqueName(".fifo"), codec: asynchronous },
      messageGroupId: (body) => `group-${bodies.push(body)}`,
    });
    await it.mailbox.send({ user: 1 });
    assertEquals(bodies, [{ user: 1 }]);
  });
});

describe("stats and the clock of SQS", gate, () => {
  useServer();

  it("stats have the three counts of SQS", async () => {
    await using it = await openForTest();
    await it.mailbox.sendMany([1, 2, 3]);
    await it.mailbox.send(4, { delayMs: 60_000 });
    await it.mailbox.receive();
    const stats = await it.mailbox.stats();
    assertEquals(stats, { waiting: 2, delayed: 1, inFlight: 1, dead: 0 });
  });

  for (const [which, offsetMs] of [["ahead", 3_600_000], ["behind", -3_600_000]] as const) {
    it(`a local clock that is ${which} does not decide which messages have expired`, async () => {
      const clock: Clock = { ...systemClock, now: () => systemClock.now() + offsetMs };
      await using it = await openForTest({ clock });
      await it.mailbox.send("short", { expiresInMs: 1, onExpired: "drop" });
      await it.mailbox.send("long", { expiresInMs: 600_000 });
      await systemClock.sleep(2);
      const messages = await it.mailbox.receive({ maxMessages: 10 });
      assertEquals(messages.map(({ body }) => body), ["long"]);
    });
  }
});
