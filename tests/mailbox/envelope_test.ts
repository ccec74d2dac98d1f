import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../src/mailbox/errors.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };

/** A mailbox, and direct access to what its engine stores. */
function onStore(maxBytes?: number) {
  const clock = new VirtualClock();
  const engine = new MemoryEngine<string>("orders", Infinity, clock);
  const codec = jsonCodec(maxBytes);
  const mailbox = new EngineMailbox<unknown, unknown, string>("orders", engine, codec, { clock });
  const stored = () => engine.peek(10).map(({ body, meta }) => [body, meta]);
  const store = (body: string, to = engine) =>
    to.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
  return { mailbox, engine, stored, store };
}

describe("the stored envelope", () => {
  it("is one JSON value beside the unchanged body, and missing where there are no fields", async () => {
    const { mailbox, stored } = onStore();
    await mailbox.send({ n: 1 });
    await mailbox.send({ n: 2 }, { headers: { tenant: "acme" }, replyTo: "replies" });
    assertEquals(stored(), [
      ['{"n":1}', undefined],
      ['{"n":2}', '{"headers":{"tenant":"acme"},"replyTo":"replies"}'],
    ]);
  });

  it("counts towards the size limit", async () => {
    const { mailbox } = onStore(60);
    await mailbox.send("x".repeat(50));
    const send = () => mailbox.send("x".repeat(50), { headers: { tenant: "acme" } });
    await assertRejects(send, InvalidParameterError, "The body and its headers have 81 bytes");
  });

  it("is dead-lettered with the message when it cannot be decoded", async () => {
    const { mailbox, engine } = onStore();
    engine.send([{ id: "a", body: "1", meta: "{ not JSON", delayMs: 0, dedup: false }]);
    assertEquals(await mailbox.receive(), []);
    const [letter] = await mailbox.deadLetters.receive();
    assertEquals([letter?.body.raw, letter?.body.reason], ["1", "unreadable"]);
  });
});

describe("data of version 0.1", () => {
  it("a body with a trace is read as a body and headers", async () => {
    const { mailbox, store } = onStore();
    store(`{"lastcall:trace":${JSON.stringify(trace)},"body":{"n":1}}`);
    store(`{"lastcall:trace":{},"body":{"lastcall:trace":{},"body":2}}`);
    const messages = await mailbox.receive({ maxMessages: 2 });
    assertEquals(messages.map(({ body, headers }) => [body, headers]), [
      [{ n: 1 }, trace],
      [{ "lastcall:trace": {}, body: 2 }, {}],
    ]);
  });

  it("a body with a trace is read beside a reply address, which its engine returns as meta", async () => {
    const { mailbox, engine } = onStore();
    const body = `{"lastcall:trace":${JSON.stringify(trace)},"body":{"n":1}}`;
    const meta = JSON.stringify({ replyTo: "replies" });
    engine.send([{ id: "a", body, meta, delayMs: 0, dedup: false }]);
    const [message] = await mailbox.receive();
    assertEquals([message?.body, message?.headers, message?.replyTo], [{ n: 1 }, trace, "replies"]);
  });

  it("a body that only looks like one with a trace is read as it is", async () => {
    const { mailbox, store } = onStore();
    const bodies = [
      { "lastcall:trace": { traceparent: "mine" }, body: 1 },
      { "lastcall:trace": "mine", body: 1 },
      { "lastcall:trace": {} },
    ];
    for (const body of bodies) store(JSON.stringify(body));
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), bodies);
  });

  it("a dead letter with a trace is redriven with it as headers", async () => {
    const { mailbox, engine, store } = onStore();
    const letter = { id: "a", body: 1, reason: "test", deliveryCount: 1, enqueuedAt: 0, deadAt: 0 };
    store(JSON.stringify({ ...letter, replyTo: "replies", trace }), engine.deadLetters());
    assertEquals(await redrive(mailbox), 1);
    const [message] = await mailbox.receive();
    assertEquals([message?.id, message?.body, message?.headers], ["a", 1, trace]);
    assertEquals(message?.replyTo, "replies");
  });

  it("a body with a trace that cannot be decoded is dead-lettered as it is", async () => {
    const { mailbox, store } = onStore();
    const text = `{"lastcall:trace":${JSON.stringify(trace)},"body":{ not JSON}`;
    store(text);
    assertEquals(await mailbox.receive(), []);
    const [letter] = await mailbox.deadLetters.receive();
    assertEquals([letter?.body.raw, letter?.body.reason], [text, "unreadable"]);
  });
});
