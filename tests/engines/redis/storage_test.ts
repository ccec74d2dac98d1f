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

describe("what is on a Redis server", gate, () => {
  it("is all under one hash tag, dead letters too, and never ends by itself", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b", "c", "d", "e"]);
    await mailbox.send("f", { id: "chosen", delayMs: 60_000 });
    const messages = await mailbox.receive({ maxMessages: 4 });
    await messages[0]!.saveCheckpoint("half");
    await messages[1]!.deadLetter({ reason: "test" });
    await messages[2]!.release();
    const keys = (await behind.redis.keys(`*${name}*`)).sort();
    const parts = ["due", "ids", "messages", "meta", "progress", "ready", "returned", "state"];
    const dead = ["messages", "meta", "ready"];
    assertEquals(keys, [
      ...dead.map((part) => `{lastcall:${name}}.dead:${part}`),
      ...parts.map((part) => `{lastcall:${name}}:${part}`),
    ]);
    for (const key of keys) assertEquals(await behind.redis.ttl(key), -1, `${key} has no end`);
  });

  it("is nothing but the last number when all is done", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    await it.mailbox.sendMany(["a", "b"]);
    await it.mailbox.send("c", { id: "chosen" });
    const messages = await it.mailbox.receive({ maxMessages: 3 });
    await messages[0]!.saveCheckpoint("half");
    await it.mailbox.acknowledgeMany!(messages);
    assertEquals(await behind.redis.keys(`*${it.name}*`), [`{lastcall:${it.name}}:meta`]);
  });

  it("takes no acknowledgement for a message that stands in line again", async () => {
    await using it = await openForTest(url);
    await it.mailbox.sendMany(["a", "b"]);
    const late = await it.mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 20 });
    // This one takes the first, and has put the second in line by then.
    const [first] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(first?.body, "a");
    assertEquals(await it.mailbox.acknowledgeMany!(late), [false, false]);
    const [second] = await it.mailbox.receive();
    assertEquals([second?.body, second?.deliveryCount], ["b", 2]);
  });

  it("opens the dead letters by their name", async () => {
    await using it = await openForTest(url);
    await it.mailbox.send("work");
    await (await it.mailbox.receive())[0]!.deadLetter({ reason: "test" });
    await using letters = await RedisMailbox.open<{ body: unknown }>(url, {
      name: `${it.name}.dead`,
    });
    assertEquals((await letters.receive())[0]?.body.body, "work");
  });

  it("passes over messages whose body is gone, and says so", async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (text: string) => void errors.push(text) };
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b"]);
    await mailbox.send("c", { id: "chosen" });
    await mailbox.send("d");
    await behind.redis.hdel(`{lastcall:${name}}:messages`, "1", "3");
    assertEquals((await mailbox.receive({ maxMessages: 2 })).map(({ body }) => body), ["b", "d"]);
    assertEquals(errors.length, 1);
    assertStringIncludes(errors[0]!, `2 messages of "${name}" are lost`);
    await mailbox.send("c again", { id: "chosen" });
    assertEquals((await mailbox.receive()).map(({ body }) => body), ["c again"]);
    assertEquals(await mailbox.approximateCount(), 3);
  });

  it("knows an empty id from none", async () => {
    await using it = await openForTest(url);
    for (const body of ["first", "again"]) await it.mailbox.send(body, { id: "" });
    const messages = await it.mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id, body }) => [id, body]), [["", "first"]]);
    await messages[0]!.acknowledge();
    await it.mailbox.send("second", { id: "" });
    assertEquals(await it.mailbox.approximateCount(), 1);
  });

  it("can be acknowledged though the body is gone meanwhile", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    await it.mailbox.send("work");
    const [message] = await it.mailbox.receive();
    await behind.redis.hdel(`{lastcall:${it.name}}:messages`, "1");
    await message!.acknowledge();
    assertEquals(await it.mailbox.receive(), []);
  });

  it("is left alone when something else has written it", async () => {
    const name = uniqueName();
    await using behind = look();
    await behind.redis.set(`{lastcall:${name}}:ready`, "mine");
    const error = await assertRejects(() => RedisMailbox.open(url, { name }));
    assertStringIncludes(
      String(error),
      `MailboxConnectionError: Mailbox "${name}" cannot be opened`,
    );
    assertEquals(await behind.redis.get(`{lastcall:${name}}:ready`), "mine");
    await behind.redis.del(`{lastcall:${name}}:ready`);
    await behind.redis.hset(`{lastcall:${name}}:meta`, "format", "2");
    await assertRejects(() => RedisMailbox.open(url, { name }), MailboxConnectionError, "format");
    await cleanUp(name);
  });

  it("is pushed back above maxSize, all or nothing", async () => {
    await using it = await openForTest(url, { maxSize: 3 });
    await it.mailbox.sendMany([1, 2]);
    await it.mailbox.send(3, { id: "chosen" });
    await it.mailbox.send(3, { id: "chosen" });
    await assertRejects(() => it.mailbox.sendMany([4, 5]), MailboxFullError, "holds 3 of 3");
    assertEquals(await it.mailbox.approximateCount(), 3);
    await (await it.mailbox.receive())[0]!.acknowledge();
    await it.mailbox.send(4);
  });

  it("takes thousands in one step", async () => {
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

  it("keeps the order of all that comes back in between", async () => {
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

  it("is taken in the order it was sent, also what was delayed in between", async () => {
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

  it("is shared by mailboxes on one client, which outlives them", async () => {
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

  it("is opened by a URL from the configuration", async () => {
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
  it("refuses what is no server, and shows no password", async () => {
    for (const bad of ["http://user:secret@host", "", {} as never, undefined as never]) {
      const error = await assertRejects(() => RedisMailbox.open(bad), InvalidParameterError);
      assertEquals(/secret/.test(error.message), false, error.message);
    }
    await assertRejects(
      () => RedisMailbox.open("redis://h", { name: "{}" }),
      InvalidParameterError,
    );
    await assertRejects(() => RedisMailbox.open("redis://h", { callTimeoutMs: 0 }), RangeError);
  });

  it("refuses clients of another kind, and says what to do instead", async () => {
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

  it("fails in time where no server is, and shows no password", async () => {
    const error = await assertRejects(
      () => RedisMailbox.open("redis://user:secret@127.0.0.1:1", { log: silentLog }),
      MailboxConnectionError,
      "redis://127.0.0.1:1",
    );
    assertEquals(/secret/.test(`${error.message}${JSON.stringify(error.cause)}`), false);
  });

  it("says why it is refused, and shows no password", gate, async () => {
    const at = url.replace("redis://", "redis://nobody:secret@");
    const error = await assertRejects(
      () => RedisMailbox.open(at, { log: silentLog }),
      MailboxConnectionError,
      "WRONGPASS",
    );
    assertEquals(/secret/.test(`${error.message}${JSON.stringify(error.cause)}`), false);
  });
});
