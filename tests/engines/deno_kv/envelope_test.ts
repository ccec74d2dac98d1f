import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { DenoKvMailbox, type KvKey } from "../../../src/engines/deno_kv/mod.ts";
import { redrive } from "../../../src/loops/redrive.ts";
import { gate, openForTest, openStore } from "./_kv.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const traced = `{"lastcall:trace":{"traceparent":"${traceparent}"},"body":{"n":1}}`;
const letter = {
  ...{ id: "order-2", body: { n: 2 }, reason: "test", deliveryCount: 1, enqueuedAt: 1, deadAt: 2 },
  ...{ replyTo: "replies", checkpoint: { step: 2 }, trace: { traceparent } },
};

/** What version 0.1 stored: a message with all fields, a plain one, and a dead letter. */
const OF_VERSION_0_1: readonly (readonly [key: KvKey, value: unknown])[] = [
  [["lastcall", "orders", "id", "order-1"], 1],
  [["lastcall", "orders", "progress", 1_794_986_273_688_000, "9d9d0463"], bytes('{"step":1}')],
  [["lastcall", "orders", "ready", 1_794_986_273_688_000, "9d9d0463"], [
    bytes(`[1794986273688000,"9d9d0463","order-1",1,1,1794986273688,0,0,"replies"]\n${traced}`),
    bytes('[1794986273688001,"9d9d0463","plain",0,0,1794986273688,0,0,null]\n{"n":3}'),
  ]],
  [["lastcall", "orders.dead", "ready", 1_794_986_273_687_000, "b2bcc8a1"], [
    bytes(
      '[1794986273687000,"b2bcc8a1","order-2",0,0,1794986273687,0,0,"replies"]\n' +
        JSON.stringify(letter),
    ),
  ]],
];

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

describe("the envelope of a message in Deno KV", gate, () => {
  it("is read from messages and dead letters that version 0.1 stored", async () => {
    const kv = await openStore(":memory:");
    const atomic = kv.atomic();
    for (const [key, value] of OF_VERSION_0_1) atomic.set(key, value);
    atomic.sum(["lastcall", "orders", "count"], 2n).sum(["lastcall", "orders.dead", "count"], 1n);
    await atomic.commit();
    await using mailbox = await DenoKvMailbox.open<unknown>(kv, { name: "orders" });
    for (const deliveryCount of [1, 2]) {
      const messages = await mailbox.receive({ maxMessages: 10 });
      assertEquals(
        messages.map((it) => {
          return [it.id, it.body, it.headers, it.replyTo, it.checkpoint, it.deliveryCount];
        }),
        [
          ["order-1", { n: 1 }, { traceparent }, "replies", { step: 1 }, deliveryCount],
          ["plain", { n: 3 }, {}, undefined, undefined, deliveryCount],
        ],
      );
      for (const message of messages) await message.nack();
    }
    assertEquals(await redrive(mailbox), 1);
    const { id, body, headers, replyTo, checkpoint } =
      (await mailbox.receive({ maxMessages: 3 }))[2]!;
    assertEquals([id, body], ["order-2", { n: 2 }]);
    assertEquals([headers, replyTo, checkpoint], [{ traceparent }, "replies", { step: 2 }]);
    await mailbox.close();
    kv.close();
  });

  it("returns all characters of headers, also of the largest ones", async () => {
    await using it = await openForTest();
    const headers = { "\u001F\u007F\uFFFE\uFFFF🍵 漢 'é\"\\\n": "\u0001🍵\uFEFF".repeat(2_000) };
    await it.mailbox.send("\uFEFFwork", { headers, replyTo: "🍵\n" });
    const [message] = await it.mailbox.receive();
    assertEquals([message!.body, message!.headers], ["\uFEFFwork", headers]);
    assertEquals(message!.replyTo, "🍵\n");
  });

  it("does not prevent dead-lettering and redriving, however large it and the checkpoint are", async () => {
    await using it = await openForTest({ name: "orders" });
    const { mailbox, path } = it;
    const headers = { large: "🍵".repeat(7_000) };
    const body = "漢".repeat(9_000);
    const checkpoint = "é".repeat(25_000);
    await mailbox.send(body, { headers });
    const [message] = await mailbox.receive();
    await message!.saveCheckpoint(checkpoint);
    await message!.deadLetter({ reason: "test" });

    const [peeked] = await mailbox.deadLetters.peek!(10);
    assertEquals([peeked?.body.body, peeked?.headers], [body, headers]);
    const [letter] = await mailbox.deadLetters.receive();
    assertEquals([letter?.body.checkpoint, letter?.headers], [checkpoint, headers]);
    await letter!.release();
    assertEquals(await redrive(mailbox), 1);
    const [again] = await mailbox.receive();
    assertEquals([again?.body, again?.headers, again?.checkpoint], [body, headers, checkpoint]);
    await again!.acknowledge();

    const kv = await openStore(path);
    const left: string[] = [];
    for await (const { key } of kv.list({ prefix: ["lastcall"] })) {
      if (key[2] !== "owner") left.push(key.slice(1).join(" "));
    }
    kv.close();
    const counters = ["orders count", "orders wakes", "orders.dead count", "orders.dead wakes"];
    assertEquals(left, counters, "all parts are deleted");
  });
});
