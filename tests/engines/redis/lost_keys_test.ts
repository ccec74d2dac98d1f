// Keys that another program deleted, an emptied server, and a server that evicts keys.

import { describe, it } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { cleanUp, gate, look, openForTest, uniqueName, url } from "./_redis.ts";

/** Returns a log that collects warnings and errors. */
function collecting(): { readonly log: Log; readonly logged: string[] } {
  const logged: string[] = [];
  const add = (text: string, fields?: object) => void logged.push(text + JSON.stringify(fields));
  return { log: { ...silentLog, warn: add, error: add }, logged };
}

const bodiesOf = (messages: readonly { readonly body: unknown }[]) => messages.map((it) => it.body);

describe("RedisMailbox with deleted keys", gate, () => {
  it("messages whose list was deleted are delivered, and one error is logged", async () => {
    const { log, logged } = collecting();
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    await mailbox.sendMany(["a", "b", "c"]);
    await behind.redis.del(`{lastcall:${name}}:ready`);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 2 })), ["a", "b"]);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 2 })), ["c"]);
    assertEquals(await mailbox.receive(), []);
    assertEquals(logged.length, 1, logged.join("\n"));
    assertStringIncludes(logged[0]!, "orphaned messages queued again");
    assertStringIncludes(logged[0]!, `{"mailbox":"${name}","count":3}`);
  });

  it("a waiting receive gets orphaned messages with their delivery counts and checkpoints", async () => {
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
    assertEquals(
      await mailbox.acknowledgeMany([held!]),
      [false],
      "a later delivery has settled it",
    );
  });

  it("thousands of orphaned messages are found beside delayed and leased ones", async () => {
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

  it("a deleted counter never gives a new message the number of a stored one", async () => {
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

  it("an emptied server is logged as lost messages by receivers and senders", async () => {
    const name = uniqueName();
    const [receiver, sender] = [collecting(), collecting()];
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
      for (const { logged } of [receiver, sender]) {
        assertEquals(logged.length, 1, logged.join("\n"));
        assertStringIncludes(logged[0]!, "messages lost: the server restarted without its data");
        assertStringIncludes(logged[0]!, `"mailbox":"${name}"`);
      }
    }
    await cleanUp(name);
  });

  it("a purge is not logged as lost messages", async () => {
    const { log, logged } = collecting();
    await using it = await openForTest(url, { log });
    await it.mailbox.sendMany(["a", "b"]);
    await it.mailbox.receive();
    await it.mailbox.purge();
    await it.mailbox.receive();
    await it.mailbox.send("c");
    assertEquals(logged, []);
  });
});

const own = { skip: hasBinary(redis) ? false : missing(redis) };

describe("RedisMailbox on a server that loses messages", own, () => {
  const open = (server: PrivateServer, options: RedisMailboxOptions) =>
    RedisMailbox.open<unknown>(server.url, { pollIntervalMs: 20, ...options });

  it("a restart without data is logged, and the mailbox works with new messages", async () => {
    await using server = await PrivateServer.start({
      ...redis,
      args: (port) => ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""],
    });
    const { log, logged } = collecting();
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
    assertEquals(
      await mailbox.approximateCount(),
      1,
      "an old receipt handle removes no new message",
    );
    assertEquals(logged.filter((text) => /messages lost/.test(text)).length, 1, logged.join("\n"));
  });

  it("an eviction policy that deletes messages is logged when opening and when messages are lost", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    const admin = behind.redis;
    for (const policy of ["noeviction", "volatile-lru"]) {
      await admin.config("SET", "maxmemory-policy", policy);
      const { log, logged } = collecting();
      await using _mailbox = await open(server, { log });
      assertEquals(logged, [], policy);
    }
    const early = collecting();
    await using mailbox = await open(server, { log: early.log });
    await mailbox.sendMany(["a", "b"]);
    await admin.config("SET", "maxmemory-policy", "allkeys-random");
    const late = collecting();
    await using _late = await open(server, { log: late.log });
    assertEquals(late.logged.length, 1, late.logged.join("\n"));
    assertStringIncludes(late.logged[0]!, '"policy":"allkeys-random"');
    // The server can evict nothing but the keys of the mailbox.
    await admin.config("SET", "maxmemory", "1");
    await eventually(async () => {
      await admin.call("SET", "other", "x").catch(() => {});
      assertEquals(await admin.dbsize(), 0);
    });
    await admin.config("SET", "maxmemory", "0");
    assertEquals(await mailbox.receive(), []);
    assert(early.logged.some((text) => /"policy":"allkeys-random"/.test(text)), "warned");
    assert(early.logged.some((text) => /messages lost/.test(text)), early.logged.join("\n"));
  });

  it("a user without the permission to read the eviction policy opens a mailbox", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    await behind.redis.call("ACL", "SETUSER", "w", "on", ">pw", "~*", "&*", "+@all", "-info");
    await behind.redis.config("SET", "maxmemory-policy", "allkeys-lru");
    const { log, logged } = collecting();
    const options = { log, pollIntervalMs: 20 };

    const at = `redis://w:pw@127.0.0.1:${server.port}`;
    await using mailbox = await RedisMailbox.open<string>(at, options);
    await mailbox.send("work");
    assertEquals(bodiesOf(await mailbox.receive()), ["work"]);
    assertEquals(logged.filter((text) => !/workers that die are not detected/.test(text)), []);
  });
});
