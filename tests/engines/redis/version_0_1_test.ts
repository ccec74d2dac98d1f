// Data that version 0.1 stored. `fixtures/version_0_1.json` has the keys of a mailbox without their prefix,
// which contains the name, and the server's time when they were read.

import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { MailboxConnectionError, type Message, redrive } from "../../../mod.ts";
import type { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { gate, look, openForTest, uniqueName, url } from "./_redis.ts";

type Fields = Readonly<Record<string, string>>;
type Stored =
  | { readonly type: "hash"; readonly value: Fields }
  | { readonly type: "list"; readonly value: readonly string[] }
  | { readonly type: "zset"; readonly value: Readonly<Record<string, number>> };

const dump = JSON.parse(
  readFileSync(new URL("./fixtures/version_0_1.json", import.meta.url), "utf8"),
) as { readonly takenAtUs: number; readonly keys: Readonly<Record<string, Stored>> };

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "vendor=1",
};

/** Restores the dump under a new name, as if it was taken now, and opens it. */
async function openRestored() {
  const name = uniqueName();
  const behind = look();
  const { redis } = behind;
  const [seconds, microseconds] = await redis.time();
  const shiftUs = Number(seconds) * 1_000_000 + Number(microseconds) - dump.takenAtUs;
  for (const [part, { type, value }] of Object.entries(dump.keys)) {
    const key = `{lastcall:${name}}${part}`;
    if (type === "hash") await redis.hset(key, value);
    else if (type === "list") await redis.rpush(key, ...value);
    else {
      for (const [seq, score] of Object.entries(value)) {
        await redis.zadd(key, part.endsWith(":due") ? score + shiftUs : score, seq);
      }
    }
  }
  const opened = await openForTest(url, { name });
  return {
    mailbox: opened.mailbox,
    redis,
    key: (part: string) => `{lastcall:${name}}${part}`,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]();
      await behind[Symbol.asyncDispose]();
    },
  };
}

/** Returns what a handler sees of a message; undefined fields are left out. */
function seen(message: Message<unknown>): object {
  const { body, deliveryCount, replyTo, headers, checkpoint } = message;
  return {
    body,
    deliveryCount,
    ...(replyTo === undefined ? {} : { replyTo }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
  };
}

async function workOff(mailbox: RedisMailbox<unknown>): Promise<object[]> {
  const all: object[] = [];
  for (;;) {
    const messages = await mailbox.receive({ maxMessages: 5 });
    if (messages.length === 0) return all;
    all.push(...messages.map(seen));
    assertEquals(new Set(await mailbox.acknowledgeMany(messages)), new Set([true]));
  }
}

const READY = [
  {
    body: "nacked with checkpoint",
    deliveryCount: 2,
    headers: TRACE,
    checkpoint: { page: 4 },
  },
  { body: "released", deliveryCount: 1 },
  { body: "waiting", deliveryCount: 1 },
  { body: { text: "line\nbreak, “quotes” and \u{1F375}" }, deliveryCount: 1 },
  { body: "with chosen id", deliveryCount: 1 },
  { body: "with empty id", deliveryCount: 1 },
  { body: "with reply address", deliveryCount: 1, replyTo: "replies" },
  { body: "with trace", deliveryCount: 1, headers: TRACE },
  {
    body: "with reply address and trace",
    deliveryCount: 1,
    replyTo: "replies",
    headers: TRACE,
  },
  { body: "with a checkpoint from the sender", deliveryCount: 1, checkpoint: { page: 1 } },
  {
    body: "with reply address and a checkpoint",
    deliveryCount: 1,
    replyTo: "replies",
    checkpoint: { page: 2 },
  },
  { body: { "lastcall:trace": "not a trace", body: 1 }, deliveryCount: 1 },
];

const HIDDEN = [
  {
    body: "leased with checkpoint",
    deliveryCount: 2,
    replyTo: "replies",
    checkpoint: { page: 3 },
  },
  { body: "delayed", deliveryCount: 1, replyTo: "replies" },
];

describe("data of version 0.1 on Redis", gate, () => {
  it("all messages of version 0.1 are worked off, and only the last number remains", async () => {
    await using it = await openRestored();
    assertEquals(await it.mailbox.approximateCount(), READY.length + HIDDEN.length);
    assertEquals(await workOff(it.mailbox), READY, "leased and delayed messages are hidden");
    // As if the lease and the delay had ended.
    await it.redis.zadd(it.key(":due"), 1, "4", 1, "17");
    assertEquals(await workOff(it.mailbox), HIDDEN);
    await it.mailbox.close();
    assertEquals(await it.redis.keys(it.key(":*")), [it.key(":meta")]);
    const meta = { seq: "17", format: "1", indexed: "1" };
    assertEquals(await it.redis.hgetall(it.key(":meta")), meta);
  });

  it("messages of version 0.1 are found and cancelled by their ids in all states", async () => {
    await using it = await openRestored();
    for (const { id, body } of await it.mailbox.peek(100)) {
      assertEquals((await it.mailbox.get(id))?.body, body);
    }
    assertEquals(await it.mailbox.get("unknown"), undefined);
    const sent = await it.mailbox.send("of this version");
    for (const { id } of await it.mailbox.peek(100)) {
      assertEquals([await it.mailbox.cancel(id), await it.mailbox.cancel(id)], [true, false]);
    }
    assertEquals(await it.mailbox.get(sent.id), undefined);
    assertEquals(await it.mailbox.receive(), []);
    await it.mailbox.close();
    assertEquals(await it.redis.keys(it.key(":[^c]*")), [it.key(":meta")]);
  });

  it("messages of version 0.1 and of this version are counted", async () => {
    await using it = await openRestored();
    const { waiting, paused } = await it.mailbox.stats();
    assertEquals([waiting, paused], [READY.length, false]);
    await it.mailbox.send("first", { priority: 1 });
    assertEquals((await it.mailbox.receive())[0]?.body, "first");
  });

  it("peek shows the messages of version 0.1 in all states", async () => {
    await using it = await openRestored();
    const peeked = await it.mailbox.peek(100);
    assertEquals(peeked.map(({ body }) => body), [
      HIDDEN[0]!.body,
      ...READY.map(({ body }) => body),
      HIDDEN[1]!.body,
    ]);
    assertEquals(peeked.filter(({ headers }) => headers["traceparent"]).length, 3);
  });

  it("a chosen id of version 0.1 is taken until its message is acknowledged", async () => {
    await using it = await openRestored();
    const send = (id: string) => it.mailbox.send("again", { id });
    for (const id of ["order-1", "", "delayed-1", "nacked-1"]) {
      assertEquals(await send(id), { id, stored: false });
    }
    await workOff(it.mailbox);
    assertEquals(await send("order-1"), { id: "order-1", stored: true });
    assertEquals(await workOff(it.mailbox), [{ body: "again", deliveryCount: 1 }]);
  });

  it("dead letters of version 0.1 are redriven with trace, reply address and checkpoint", async () => {
    await using it = await openRestored();
    await workOff(it.mailbox);
    const letters = await it.mailbox.deadLetters.peek!(10);
    assertEquals(
      letters.map(({ body: { headers, replyTo, checkpoint } }) => {
        return { headers, replyTo, checkpoint };
      }),
      [
        { headers: {}, replyTo: undefined, checkpoint: undefined },
        { headers: TRACE, replyTo: "replies", checkpoint: undefined },
        { headers: {}, replyTo: undefined, checkpoint: { page: 7 } },
      ],
    );
    assertEquals(await redrive(it.mailbox), 3);
    assertEquals(await workOff(it.mailbox), [
      { body: "dead plain", deliveryCount: 1 },
      {
        body: "dead with trace and reply address",
        deliveryCount: 1,
        replyTo: "replies",
        headers: TRACE,
      },
      { body: "dead with checkpoint", deliveryCount: 1, checkpoint: { page: 7 } },
    ]);
    assertEquals(await it.mailbox.deadLetters.approximateCount(), 0);
  });

  it("a message of version 0.1 is dead-lettered with its reply address and trace", async () => {
    await using it = await openRestored();
    const messages = await it.mailbox.receive({ maxMessages: 100 });
    const message = messages.find(({ body }) => body === "with reply address and trace");
    await message!.deadLetter({ reason: "test" });
    const letter = (await it.mailbox.deadLetters.peek!(10)).at(-1)!.body;
    assertEquals([letter.replyTo, letter.headers], ["replies", TRACE]);
  });
});

describe("formats of stored messages on Redis", gate, () => {
  it("a message without headers and reply address is stored in the format of version 0.1", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    await it.mailbox.send("work", { id: "chosen" });
    await it.mailbox.send("more", { checkpoint: { page: 1 } });
    const records = await behind.redis.hgetall(`{lastcall:${it.name}}:messages`);
    assertEquals(headOf(records["1"]!), ["chosen", 1]);
    assertEquals((headOf(records["2"]!) as unknown[]).slice(1), [0, null, '{"page":1}']);
    assertEquals(await behind.redis.hget(`{lastcall:${it.name}}:meta`, "format"), "1");
  });

  it("a worker of version 0.1 reads all but the headers of a message in format 2", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const options = { id: "chosen", headers: { tenant: "a" }, replyTo: "replies" };
    await it.mailbox.send("work", { ...options, checkpoint: { page: 1 } });
    await it.mailbox.send("more", { headers: { replyTo: "a header" } });
    const records = await behind.redis.hgetall(`{lastcall:${it.name}}:messages`);
    const [id, dedup, replyTo, checkpoint] = headOf(records["1"]!) as unknown[];
    assertEquals([id, dedup, replyTo, checkpoint], ["chosen", 1, "replies", '{"page":1}']);
    assertEquals((headOf(records["2"]!) as unknown[]).slice(1, 4), [0, null, null]);
    assertEquals(await behind.redis.hget(`{lastcall:${it.name}}:meta`, "format"), "1");
    assertEquals((await it.mailbox.receive({ maxMessages: 2 })).map(seen), [
      {
        body: "work",
        deliveryCount: 1,
        replyTo: "replies",
        headers: { tenant: "a" },
        checkpoint: { page: 1 },
      },
      { body: "more", deliveryCount: 1, headers: { replyTo: "a header" } },
    ]);
  });

  it("a queue with keys or priorities is in format 2, which version 0.1 refuses to open", async () => {
    await using behind = look();
    for (const options of [{ key: "customer" }, { priority: 1 }]) {
      await using it = await openForTest(url);
      const format = () => behind.redis.hget(`{lastcall:${it.name}}:meta`, "format");
      await it.mailbox.send("work", { id: "remembered", dedupMs: 60_000, delayMs: 60_000 });
      assertEquals(await format(), "1");
      await it.mailbox.send("work", options);
      assertEquals(await format(), "2");
      await using again = await openForTest(url, { name: it.name });
      assertEquals((await again.mailbox.receive())[0]?.body, "work");
    }
  });

  it("a mailbox of a later format is refused and left unchanged", async () => {
    await using behind = look();
    const name = uniqueName();
    const meta = `{lastcall:${name}}:meta`;
    for (const format of ["3", "other"]) {
      await behind.redis.hset(meta, "format", format);
      await assertRejects(() => openForTest(url, { name }), MailboxConnectionError, "its format");
      assertEquals(await behind.redis.hgetall(meta), { format });
    }
    await behind.redis.unlink(meta);
  });
});

/** Reads the head of a record as version 0.1 does. */
function headOf(record: string): unknown {
  return JSON.parse(record.slice(record.indexOf(" ") + 1, record.indexOf("\n")));
}
