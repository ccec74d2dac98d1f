// What is special of pauses, rate limits and expired leases on Redis.

import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { gate, look, openForTest, url } from "./_redis.ts";

const own = { skip: hasBinary(redis) ? false : missing(redis) };

describe("pauses and rate limits on Redis", gate, () => {
  it("a queue that an earlier version paused is paused until it is resumed", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const meta = `{lastcall:${it.name}}:meta`;
    await it.mailbox.send("work");
    await behind.redis.hset(meta, "paused", 1);
    await it.mailbox.pause({ forMs: 1 });
    assertEquals(await it.mailbox.receive({ waitTimeMs: 20 }), []);
    const { paused, pausedForMs } = await it.mailbox.stats();
    assertEquals([paused, pausedForMs], [true, undefined]);
    await it.mailbox.resume();
    assertEquals((await it.mailbox.receive()).length, 1);
    assertEquals(await behind.redis.hexists(meta, "paused"), 0);
  });

  it("nothing is left of a pause that has ended, and of a limit", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox } = it;
    await mailbox.sendMany([1, 2, 3]);
    await mailbox.pause({ forMs: 20 });
    await mailbox.rateLimit({ max: 2, perMs: 60_000.5 });
    assertEquals((await mailbox.receive({ maxMessages: 3, waitTimeMs: 5_000 })).length, 2);
    assertEquals((await mailbox.stats()).rateLimit, { max: 2, perMs: 60_000.5 });
    await mailbox.rateLimit(false);
    assertEquals((await mailbox.receive()).length, 1);
    const fields = await behind.redis.hkeys(`{lastcall:${it.name}}:meta`);
    assertEquals(fields.sort(), ["format", "indexed", "seq"]);
  });

  it("the counts of a rate limit do not grow", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox } = it;
    const limit = { max: 1_000_000, perMs: 50 };
    await mailbox.rateLimit(limit);
    await mailbox.sendMany(Array.from({ length: 400 }, (_, i) => i));
    for (let i = 0; i < 400; i++) await (await mailbox.receive())[0]!.acknowledge();
    const counts = await behind.redis.hget(`{lastcall:${it.name}}:meta`, "counts");
    const parts = counts!.split(" ").length / 2;
    assert(parts <= 52, `${parts} parts`);
  });

  it("a message behind a key is announced though the rate limit stops its receive", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox } = it;
    await mailbox.rateLimit({ max: 1, perMs: 600_000 });
    await mailbox.sendMany(["first", "second"], { key: "customer" });
    const [first] = await mailbox.receive();
    let announced = 0;
    behind.redis.on("message", () => announced++);
    await behind.redis.subscribe(`{lastcall:${it.name}}:wake`);
    const [, received] = await Promise.all([first!.acknowledge(), mailbox.receive()]);
    assertEquals(received, []);
    await eventually(() => Promise.resolve(assertEquals(announced, 1)));
  });

  it("a state of an earlier version has no expired lease, and one of a later receive keeps them", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const [state, due] = [`{lastcall:${it.name}}:state`, `{lastcall:${it.name}}:due`];
    await it.mailbox.send("work");
    const expire = () => behind.redis.zadd(due, 1, "1");
    const receive = async () => (await it.mailbox.receive())[0]!;
    await receive();
    assertEquals((await behind.redis.hget(state, "1"))!.split(" ").length, 3, "as before");
    await expire();
    await behind.redis.hset(state, "1", "7 0 1234567-89-5");
    const eighth = await receive();
    assertEquals([eighth.deliveryCount, eighth.leaseExpiries], [8, 1]);
    await eighth.saveCheckpoint("half");
    await eighth.release();
    assertEquals(await behind.redis.hget(state, "1"), "7 1 1 ");
    const again = await receive();
    assertEquals([again.deliveryCount, again.leaseExpiries, again.checkpoint], [8, 1, "half"]);
    await expire();
    const ninth = await receive();
    await ninth.nack({ countsAttempt: false });
    const last = await receive();
    assertEquals([last.deliveryCount, last.leaseExpiries], [9, 2]);
  });
});

describe("pauses and rate limits on a Redis server without memory", own, () => {
  it("pause, resume and rate limits work without memory", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    await using mailbox = await RedisMailbox.open<string>(server.url, { log: silentLog });
    await mailbox.sendMany(["a", "b", "c", "d"]);
    await behind.redis.config("SET", "maxmemory", "1");
    await mailbox.pause({ forMs: 600_000 });
    assertEquals(await mailbox.receive(), []);
    await mailbox.resume();
    await mailbox.rateLimit({ max: 2, perMs: 600_000 });
    assertEquals((await mailbox.receive({ maxMessages: 4 })).length, 2);
    assertEquals(await mailbox.receive(), []);
    await mailbox.rateLimit(false);
    assertEquals((await mailbox.receive({ maxMessages: 4 })).length, 2);
    assertEquals(mailbox.capabilities.ownerDetection, true, "the registration is small, too");
  });
});
