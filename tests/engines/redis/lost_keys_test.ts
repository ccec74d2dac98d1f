// Keys that another program removed, an emptied server, and a server that removes keys by itself.

import { describe, it } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { cleanUp, gate, look, openForTest, uniqueName, url } from "./_redis.ts";

/** A log that keeps what is warned of, and worse. */
function keeping(): { readonly log: Log; readonly said: string[] } {
  const said: string[] = [];
  const say = (text: string) => void said.push(text);
  return { log: { ...silentLog, warn: say, error: say }, said };
}

const bodiesOf = (messages: readonly { readonly body: unknown }[]) => messages.map((it) => it.body);

describe("a mailbox on Redis whose keys were removed by others", gate, () => {
  it("delivers the messages again that stood in the removed line, and says so once", async () => {
    const { log, said } = keeping();
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b", "c"]);
    await behind.redis.del(`{lastcall:${name}}:ready`);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 2 })), ["a", "b"]);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 2 })), ["c"]);
    assertEquals(await mailbox.receive(), []);
    assertEquals(said.length, 1, said.join("\n"));
    assertStringIncludes(said[0]!, `3 messages of "${name}"`);
  });

  it("wakes who waits with what it finds, and keeps counts and checkpoints", async () => {
    await using it = await openForTest(url, { log: silentLog, pollIntervalMs: 20 });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["returned", "held", "ready"]);
    await mailbox.send("delayed", { delayMs: 600_000 });
    const [returned, held] = await mailbox.receive({ maxMessages: 2 });
    await returned!.saveCheckpoint("half");
    await returned!.nack();
    await behind.redis.del(...["ready", "returned", "due"].map((of) => `{lastcall:${name}}:${of}`));
    const found: unknown[] = [];
    for (let look = 0; look < 3 && found.length < 4; look++) {
      for (const message of await mailbox.receive({ maxMessages: 10, waitTimeMs: 5_000 })) {
        found.push([message.body, message.deliveryCount, message.checkpoint]);
        await message.acknowledge();
      }
    }
    assertEquals(found, [
      ["returned", 2, "half"],
      ["held", 2, undefined],
      ["ready", 1, undefined],
      ["delayed", 1, undefined],
    ]);
    assertEquals(await mailbox.approximateCount(), 0);
    assertEquals(await mailbox.acknowledgeMany([held!]), [false], "another delivery had it");
  });

  it("finds thousands, beside what is delayed and in flight", async () => {
    await using it = await openForTest(url, { log: silentLog });
    await using behind = look();
    const { mailbox, name } = it;
    const bodies = Array.from({ length: 5_000 }, (_, i) => i);
    await mailbox.sendMany(bodies.slice(0, 2_500), { delayMs: 600_000 });
    await mailbox.sendMany(bodies.slice(2_500));
    const held = await mailbox.receive({ maxMessages: 10 });
    await behind.redis.del(`{lastcall:${name}}:ready`);
    const found: unknown[] = bodiesOf(held);
    for (;;) {
      const messages = await mailbox.receive({ maxMessages: 1_000 });
      if (messages.length === 0) break;
      found.push(...bodiesOf(messages));
    }
    assertEquals(found, bodies.slice(2_500));
  });

  it("gives no new message the number of one that is there", async () => {
    await using it = await openForTest(url, { log: silentLog });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b"]);
    const [a] = await mailbox.receive();
    await behind.redis.del(`{lastcall:${name}}:meta`);
    await mailbox.sendMany(["c", "d"]);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 10 })), ["b", "c", "d"]);
    await a!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 3);
  });

  it("says that messages are lost when it was emptied, to who receives and to who sends", async () => {
    const name = uniqueName();
    const [receiver, sender] = [keeping(), keeping()];
    {
      await using behind = look();
      await using receiving = await RedisMailbox.open<string>(url, { name, log: receiver.log });
      await using sending = await RedisMailbox.open<string>(url, { name, log: sender.log });
      await sending.sendMany(["a", "b", "c"]);
      await (await receiving.receive())[0]!.acknowledge();
      assertEquals(bodiesOf(await receiving.receive()), ["b"]);
      const keys = await behind.redis.keys(`{lastcall:${name}}*`);
      await behind.redis.del(...keys);
      assertEquals(await receiving.receive(), []);
      assertEquals(await receiving.receive(), []);
      await sending.sendMany(["d"]);
      await sending.sendMany(["e"]);
      assertEquals(bodiesOf(await receiving.receive({ maxMessages: 10 })), ["d", "e"]);
      for (const { said } of [receiver, sender]) {
        assertEquals(said.length, 1, said.join("\n"));
        assertStringIncludes(said[0]!, `Redis has lost messages of "${name}"`);
      }
    }
    await cleanUp(name);
  });

  it("says nothing of the kind after a purge", async () => {
    const { log, said } = keeping();
    await using it = await openForTest(url, { log });
    await it.mailbox.sendMany(["a", "b"]);
    await it.mailbox.receive();
    await it.mailbox.purge();
    await it.mailbox.receive();
    await it.mailbox.send("c");
    assertEquals(said, []);
  });
});

const own = { skip: hasBinary(redis) ? false : missing(redis) };

describe("a Redis server that loses messages", own, () => {
  const open = (server: PrivateServer, options: RedisMailboxOptions) =>
    RedisMailbox.open<unknown>(server.url, { pollIntervalMs: 20, ...options });

  it("is restarted without its data: who waits says so and gets what comes next", async () => {
    await using server = await PrivateServer.start({
      ...redis,
      args: (port) => ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""],
    });
    const { log, said } = keeping();
    await using mailbox = await open(server, { log });
    await mailbox.sendMany(["a", "b"]);
    const [held] = await mailbox.receive();
    await server.kill();
    await server.start();
    await eventually(() => mailbox.receive({ waitTimeMs: 100 }));
    await eventually(() => mailbox.send("c"));
    const [next] = await eventually(() => mailbox.receive({ waitTimeMs: 5_000 }));
    assertEquals(next?.body, "c");
    assertEquals(await mailbox.acknowledgeMany([held!]), [false]);
    assertEquals(await mailbox.approximateCount(), 1, "a late receipt removes nothing of the new");
    assertEquals(said.filter((text) => /has lost messages/.test(text)).length, 1, said.join("\n"));
  });

  it("may evict messages: a warning at the opening, and whenever some are missing", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    const admin = behind.redis;
    for (const policy of ["noeviction", "volatile-lru"]) {
      await admin.config("SET", "maxmemory-policy", policy);
      const { log, said } = keeping();
      await using _mailbox = await open(server, { log });
      assertEquals(said, [], policy);
    }
    const early = keeping();
    await using mailbox = await open(server, { log: early.log });
    await mailbox.sendMany(["a", "b"]);
    await admin.config("SET", "maxmemory-policy", "allkeys-random");
    const late = keeping();
    await using _late = await open(server, { log: late.log });
    assertEquals(late.said.length, 1, late.said.join("\n"));
    assertStringIncludes(late.said[0]!, "maxmemory-policy is allkeys-random");
    // All that it can evict are the keys of the mailbox.
    await admin.config("SET", "maxmemory", "1");
    await eventually(async () => {
      await admin.call("SET", "other", "x").catch(() => {});
      assertEquals(await admin.dbsize(), 0);
    });
    await admin.config("SET", "maxmemory", "0");
    assertEquals(await mailbox.receive(), []);
    assert(early.said.some((text) => /maxmemory-policy is allkeys-random/.test(text)), "told");
    assert(early.said.some((text) => /has lost messages/.test(text)), early.said.join("\n"));
  });

  it("does not let its user ask for the policy: the mailbox opens all the same", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    await behind.redis.call("ACL", "SETUSER", "w", "on", ">pw", "~*", "&*", "+@all", "-info");
    await behind.redis.config("SET", "maxmemory-policy", "allkeys-lru");
    const { log, said } = keeping();
    const options = { log, pollIntervalMs: 20 };
    // The client asks by itself whether the server is loading, and complains.
    const at = `redis://w:pw@127.0.0.1:${server.port}`;
    await using mailbox = await RedisMailbox.open<string>(at, options);
    await mailbox.send("work");
    assertEquals(bodiesOf(await mailbox.receive()), ["work"]);
    assertEquals(said, []);
  });
});
