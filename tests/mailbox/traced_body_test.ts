import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { type Codec, jsonCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/in_memory_mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };

/** A mailbox, and the texts that its engine stores. */
function onStore(codec: Codec<string> = jsonCodec()) {
  const clock = new VirtualClock();
  const engine = new MemoryEngine<string>("orders", Infinity, clock);
  const mailbox = new EngineMailbox<unknown, unknown, string>("orders", engine, codec, { clock });
  const stored = () => engine.peek(10).map(({ body }) => body);
  const store = (body: string) =>
    engine.push([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
  return { mailbox, stored, store };
}

describe("a body with a trace, as JSON", () => {
  it("stays JSON, and a body without one is stored as ever", async () => {
    const { mailbox, stored } = onStore();
    await mailbox.send({ n: 1 });
    await mailbox.send({ n: 2 }, { trace });
    const [plain, traced] = stored();
    assertEquals(plain, '{"n":1}');
    assertEquals(JSON.parse(traced ?? ""), { "lastcall:trace": trace, body: { n: 2 } });
  });

  it("is not seen in what senders store that know no traces", async () => {
    const { mailbox, store } = onStore();
    const bodies = [
      { "lastcall:trace": { traceparent: "mine" }, body: 1 },
      { "lastcall:trace": [], body: 1 },
      { "lastcall:trace": "mine", body: 1 },
      { "lastcall:trace": {} },
    ];
    for (const body of bodies) store(JSON.stringify(body));
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), bodies);
  });

  it("goes to the dead letters as it is when it cannot be read", async () => {
    const { mailbox, store } = onStore();
    const text = `{"lastcall:trace":${JSON.stringify(trace)},"body":{ no JSON}`;
    store(text);
    assertEquals(await mailbox.receive(), []);
    const [letter] = await mailbox.deadLetters.receive();
    assertEquals([letter?.body.raw, letter?.body.reason], [text, "unreadable"]);
  });

  it("is sent without the trace where that makes it too large", async () => {
    const { mailbox } = onStore(jsonCodec(150));
    await mailbox.send("x".repeat(140), { trace });
    await mailbox.send("x", { trace });
    const messages = await mailbox.receive({ maxMessages: 2 });
    assertEquals(messages.map(({ body, trace }) => [body, trace]), [
      ["x".repeat(140), undefined],
      ["x", trace],
    ]);
  });
});

describe("a codec of one's own", () => {
  const { wrap: _, unwrap: __, ...plain } = jsonCodec();

  it("carries no traces when it does not say how", async () => {
    const { mailbox, stored } = onStore(plain);
    const lookAlike = { "lastcall:trace": trace, body: 1 };
    await mailbox.send("tea", { trace });
    await mailbox.send(lookAlike);
    assertEquals(stored(), ['"tea"', JSON.stringify(lookAlike)]);
    const messages = await mailbox.receive({ maxMessages: 2 });
    assertEquals(messages.map(({ body, trace }) => [body, trace]), [
      ["tea", undefined],
      [lookAlike, undefined],
    ]);
  });
});
