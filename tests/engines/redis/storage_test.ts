import { describe, it } from "node:test";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { systemClock } from "../../../src/clock.ts";
import { silentLog } from "../../../src/log.ts";
import {
  InvalidParameterError,
  MailboxConnectionError,
  MailboxFullError,
  openMailbox,
} from "../../../mod.ts";
import { cleanUp, gate, look, openForTest, uniqueName, url } from "./_redis.ts";

describe("the storage of RedisMailbox", gate, () => {
  it("all keys of a mailbox and its dead letters share a hash tag and never expire", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b", "c", "d", "e"]);
    await mailbox.send("f", { id: "chosen", delayMs: 60_000 });
    const messages = await mailbox.receive({ maxMessages: 4 });
    await messages[0]!.saveCheckpoint("half");
    await messages[1]!.deadLetter({ reason: "test" });
    await messages[2]!.release();
    await mailbox.sendMany(["g", "h"], { key: "customer", priority: 3 });
    const keys = (await behind.redis.keys(`*${name}*`)).sort();
    const parts = [
      ...["blocked", "due", "ids", "messages", "meta", "owners", "progress", "ready", "returned"],
      ...["state", "times", "traits"],
    ];
    const dead = ["ids", "messages", "meta", "ready"];
    assertEquals(keys, [
      ...dead.map((part) => `{lastcall:${name}}.dead:${part}`),
      ...parts.map((part) => `{lastcall:${name}}:${part}`),
    ]);
    for (const key of keys) assertEquals(await behind.redis.ttl(key), -1, `${key} has no end`);
  });

  it("only the last number remains when all messages are acknowledged", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    await it.mailbox.sendMany(["a", "b"]);
    await it.mailbox.send("c", { id: "chosen" });
    await it.mailbox.sendMany(["d", "e"], (body) => ({ key: `customer ${body}`, priority: 2 }));
    const messages = await it.mailbox.receive({ maxMessages: 5 });
    await messages[0]!.saveCheckpoint("half");
    await it.mailbox.acknowledgeMany!(messages);
    await it.mailbox.close();
    assertEquals(await behind.redis.keys(`*${it.name}*`), [`{lastcall:${it.name}}:meta`]);
  });

  it("a message whose lease ended cannot be acknowledged by the old receipt handle", async () => {
    await using it = await openForTest(url);
    await it.mailbox.sendMany(["a", "b"]);
    const late = await it.mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 20 });
    // This receive delivers the first message, and makes the second one ready.
    const [first] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(first?.body, "a");
    assertEquals(await it.mailbox.acknowledgeMany!(late), [false, false]);
    const [second] = await it.mailbox.receive();
    assertEquals([second?.body, second?.deliveryCount], ["b", 2]);
  });

  it("dead letters open as a mailbox by their name", async () => {
    await using it = await openForTest(url);
    await it.mailbox.send("work");
    await (await it.mailbox.receive())[0]!.deadLetter({ reason: "test" });
    await using letters = await RedisMailbox.open<{ body: unknown }>(url, {
      name: `${it.name}.dead`,
    });
    assertEquals((await letters.receive())[0]?.body.body, "work");
  });

  it("messages without body are skipped and logged", async () => {
    const errors: unknown[] = [];
    const error = (text: string, fields: unknown) => void errors.push([text.slice(0, 13), fields]);
    const log = { ...silentLog, error };
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b"]);
    await mailbox.send("c", { id: "chosen" });
    await mailbox.send("d");
    await behind.redis.hdel(`{lastcall:${name}}:messages`, "1", "3");
    assertEquals((await mailbox.receive({ maxMessages: 2 })).map(({ body }) => body), ["b", "d"]);
    assertEquals(errors, [["messages lost", { mailbox: name, count: 2 }]]);
    await mailbox.send("c again", { id: "chosen" });
    assertEquals((await mailbox.receive()).map(({ body }) => body), ["c again"]);
    assertEquals(await mailbox.approximateCount(), 3);
  });

  it("an empty chosen id is an id", async () => {
    await using it = await openForTest(url);
    for (const body of ["first", "again"]) await it.mailbox.send(body, { id: "" });
    const messages = await it.mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id, body }) => [id, body]), [["", "first"]]);
    await messages[0]!.acknowledge();
    await it.mailbox.send("second", { id: "" });
    assertEquals(await it.mailbox.approximateCount(), 1);
  });

  it("a leased message can be acknowledged after its body was deleted", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    await it.mailbox.send("work");
    const [message] = await it.mailbox.receive();
    await behind.redis.hdel(`{lastcall:${it.name}}:messages`, "1");
    await message!.acknowledge();
    assertEquals(await it.mailbox.receive(), []);
  });

  it("keys of another program are refused and left unchanged", async () => {
    const name = uniqueName();
    await using behind = look();
    await behind.redis.set(`{lastcall:${name}}:ready`, "mine");
    const error = await assertRejects(() => RedisMailbox.open(url, { name }));
    assertStringIncludes(
      String(error),
      `MailboxConnectionError: Cannot open mailbox "${name}": the key "{lastcall:${name}}:ready"`,
    );
    assertEquals(await behind.redis.get(`{lastcall:${name}}:ready`), "mine");
    await cleanUp(name);
  });

  it("sends above maxSize store nothing", async () => {
    await using it = await openForTest(url, { maxSize: 3 });
    await it.mailbox.sendMany([1, 2]);
    await it.mailbox.send(3, { id: "chosen" });
    await it.mailbox.send(3, { id: "chosen" });
    await assertRejects(() => it.mailbox.sendMany([4, 5]), MailboxFullError, "holds 3 of 3");
    assertEquals(await it.mailbox.approximateCount(), 3);
    await (await it.mailbox.receive())[0]!.acknowledge();
    await it.mailbox.send(4);
  });

  it("sendMany stores 10 000 messages and refuses more", async () => {
    await using it = await openForTest(url);
    const bodies = Array.from({ length: 10_000 }, (_, i) => i);
    await it.mailbox.sendMany(bodies);
    const received: unknown[] = [];
    for (;;) {
      const messages = await it.mailbox.receive({ maxMessages: 1_000 });
      if (messages.length === 0) break;
      received.push(...messages.map(({ body }) => body));
      await it.mailbox.acknowledgeMany!(messages);
    }
    assertEquals(received, bodies);
    const tooMany = [...bodies, 10_000];
    await assertRejects(() => it.mailbox.sendMany(tooMany), InvalidParameterError, "at most 10000");
  });

  it("returned messages keep their order among others", async () => {
    await using it = await openForTest(url);
    const { mailbox } = it;
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second, third] = await mailbox.receive({ maxMessages: 3 });
    await mailbox.sendMany([5, 6]);
    await third!.release();
    await first!.nack();
    await second!.acknowledge();
    const order = (await mailbox.receive({ maxMessages: 10 })).map(({ body }) => body);
    assertEquals(order, [1, 3, 4, 5, 6]);
  });

  it("delayed messages keep their order among others", async () => {
    await using it = await openForTest(url);
    const { mailbox } = it;
    await mailbox.sendMany([1, 2]);
    await mailbox.send(3, { delayMs: 30 });
    await mailbox.sendMany([4, 5]);
    await systemClock.sleep(40);
    const order = (await mailbox.receive({ maxMessages: 4 })).map(({ body }) => body);
    assertEquals(order, [1, 2, 3, 4]);
    assertEquals((await mailbox.receive({ maxMessages: 4 })).map(({ body }) => body), [5]);
  });

  it("mailboxes share a client of the caller and leave it open", async () => {
    const names = [uniqueName(), uniqueName()] as const;
    await using behind = look();
    const client = behind.redis;
    const a = await RedisMailbox.open<string>(client, { name: names[0] });
    const b = await RedisMailbox.open<string>(client, { name: names[1] });
    await Promise.all([a.send("to a"), b.send("to b")]);
    const options = { waitTimeMs: 10_000 };
    assertEquals((await a.receive(options))[0]?.body, "to a");
    assertEquals((await b.receive(options))[0]?.body, "to b");
    const waiting = b.receive(options);
    await a.close();
    await b.send("still here");
    assertEquals((await waiting)[0]?.body, "still here");
    await b.close();
    assertEquals(await client.ping(), "PONG");
    for (const name of names) await cleanUp(name);
  });

  it("openMailbox opens a Redis mailbox by URL", async () => {
    const name = uniqueName();
    {
      await using mailbox = await openMailbox<string>(`${url}?queue=${name}&maxSize=1`);
      await mailbox.send("work");
      await assertRejects(() => mailbox.send("more"), MailboxFullError);
      assertEquals(mailbox.name, name);
    }
    await cleanUp(name);
  });
});

describe("RedisMailbox.open", () => {
  it("RedisMailbox.open refuses an invalid server or option without showing the password", async () => {
    const urls = ["@host", "?x@host", "#x@host", "/x@host"].map((rest) =>
      `http://user:secret${rest}`
    );
    for (const bad of [...urls, "", {} as never, undefined as never]) {
      const error = await assertRejects(() => RedisMailbox.open(bad), InvalidParameterError);
      assertEquals(/secret/.test(error.message), false, error.message);
    }
    await assertRejects(
      () => RedisMailbox.open("redis://h", { name: "{}" }),
      TypeError,
    );
    await assertRejects(() => RedisMailbox.open("redis://h", { callTimeoutMs: 0 }), RangeError);
  });

  it("RedisMailbox.open refuses other clients and says what to pass", async () => {
    const act = () => Promise.resolve();
    const ofBun = { eval: act, evalsha: act, duplicate: act, send: act, onclose: null };
    await assertRejects(
      () => RedisMailbox.open(ofBun as never),
      InvalidParameterError,
      "pass its URL",
    );
    const ofNodeRedis = { eval: act, evalSha: act, duplicate: act, sendCommand: act };
    await assertRejects(
      () => RedisMailbox.open(ofNodeRedis as never),
      InvalidParameterError,
      "expected a URL or a client like that of ioredis",
    );
  });

  it("RedisMailbox.open fails without a server, without showing the password", async () => {
    const error = await assertRejects(
      () => RedisMailbox.open("redis://user:secret@127.0.0.1:1", { log: silentLog }),
      MailboxConnectionError,
      "redis://127.0.0.1:1",
    );
    assertEquals(/secret/.test(`${error.message}${JSON.stringify(error.cause)}`), false);
  });

  it("RedisMailbox.open says that the password is wrong without showing it", gate, async () => {
    const at = url.replace("redis://", "redis://unknown:secret@");
    const error = await assertRejects(
      () => RedisMailbox.open(at, { log: silentLog }),
      MailboxConnectionError,
      "WRONGPASS",
    );
    assertEquals(/secret/.test(`${error.message}${JSON.stringify(error.cause)}`), false);
  });
});
