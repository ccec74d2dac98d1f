// Cancelled messages on Redis, the index of ids, and queues that come and go.

import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { deferred } from "../../../src/_promises.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually } from "../_servers.ts";
import { gate, look, openForTest, uniqueName, url } from "./_redis.ts";

describe("cancelled messages on Redis", gate, () => {
  it("thousands of cancelled messages are skipped, counted and not logged as lost", async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (text: string) => void errors.push(text) };
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    const sent = await mailbox.sendMany(Array.from({ length: 3_000 }, (_, i) => i));
    const gone = sent.filter((_, i) => i < 2_500 && i !== 100 || i === 2_999);
    assertEquals(
      new Set(await Promise.all(gone.map(({ id }) => mailbox.cancel(id)))),
      new Set([true]),
    );
    assertEquals(await mailbox.approximateCount(), 500);
    assertEquals((await mailbox.stats()).waiting, 500);
    assertEquals((await mailbox.peek(3)).map(({ body }) => body), [100, 2_500, 2_501]);
    const [first] = await mailbox.receive();
    const [second] = await mailbox.receive();
    assertEquals([first?.body, second?.body], [100, 2_500]);
    assertEquals((await mailbox.stats()).waiting, 498);
    const rest = await mailbox.receive({ maxMessages: 1_000 });
    assertEquals(rest.map(({ body }) => body), Array.from({ length: 498 }, (_, i) => 2_501 + i));
    await mailbox.acknowledgeMany([first!, second!, ...rest]);
    assertEquals(await mailbox.receive(), []);
    await mailbox.close();
    assertEquals(await behind.redis.keys(`{lastcall:${name}}:[^c]*`), [`{lastcall:${name}}:meta`]);
    assertEquals(errors, []);
  });

  it("a send after a cancel wakes a waiting receive", async () => {
    await using it = await openForTest(url, { pollIntervalMs: 600_000 });
    const { mailbox } = it;
    await using other = (await openForTest(url, { name: it.name })).mailbox;
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    const { id } = await other.send("cancelled");
    const wasThere = await other.cancel(id);
    await other.send("work");
    const [first] = await waiting;
    assertEquals(first?.body, wasThere && first?.id !== id ? "work" : "cancelled");
  });

  it("ids of many senders are found among many messages, also after others are gone", async () => {
    await using it = await openForTest(url);
    const { mailbox, name } = it;
    const others = await Promise.all(
      Array.from({ length: 3 }, () => openForTest(url, { name })),
    );
    const senders = [it, ...others].map(({ mailbox }) => mailbox);
    const ids: string[] = [];
    for (let round = 0; round < 60; round++) {
      for (const [i, sender] of senders.entries()) {
        const bodies = Array.from({ length: 1 + (round * 7 + i * 3) % 9 }, () => ids.length);
        ids.push(...(await sender.sendMany(bodies)).map(({ id }) => id));
        if (i === 0) ids.push((await sender.send("chosen", { id: `chosen-${round}` })).id);
      }
    }
    for (let i = 0; i < ids.length; i += 17) assertEquals((await mailbox.get(ids[i]!))?.id, ids[i]);
    const done = await mailbox.receive({ maxMessages: 500 });
    await mailbox.acknowledgeMany(done);
    const gone = new Set(done.map(({ id }) => id));
    for (let i = 0; i < ids.length; i += 13) {
      const found = await mailbox.get(ids[i]!);
      assertEquals(found?.id, gone.has(ids[i]!) ? undefined : ids[i]);
    }
    for (const other of others) await other.mailbox.close();
  });

  it("dead letters with the same id are all found", async () => {
    await using it = await openForTest(url);
    const { mailbox } = it;
    for (const body of ["first", "second"]) {
      await mailbox.send(body, { id: "order-7" });
      await (await mailbox.receive())[0]!.deadLetter({ reason: "test" });
    }
    const found: unknown[] = [];
    for (let i = 0; i < 2; i++) {
      found.push((await mailbox.deadLetters.get("order-7"))?.body.body);
      assert(await mailbox.deadLetters.cancel("order-7"));
    }
    assertEquals(found.sort(), ["first", "second"]);
    assertEquals(await mailbox.deadLetters.get("order-7"), undefined);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
  });

  it("two listeners share a connection, and hear of cancelled messages after it broke", async () => {
    const connectionName = uniqueName();
    await using it = await openForTest(`${url}?connectionName=${connectionName}`);
    await using behind = look();
    const { mailbox, name } = it;
    const channel = `{lastcall:${name}}:cancel`;
    const connections = async () => {
      const list = await behind.redis.client("LIST") as string;
      return list.split("\n").filter((line) => line.includes(`name=${connectionName} `));
    };
    const listening = () =>
      eventually(async () => {
        assertEquals(await behind.redis.pubsub("NUMSUB", channel), [channel, 1]);
      });
    let [heard, other] = [deferred<string>(), deferred<string>()];
    const stops = [
      mailbox.onCancel((id) => heard.resolve(id)),
      mailbox.onCancel((id) => other.resolve(id)),
    ];
    for (const breaks of [false, true]) {
      await listening();
      assertEquals((await connections()).length, 2);
      const id = (await mailbox.send("work")).id;
      const [message] = await mailbox.receive();
      if (breaks) {
        for (const line of (await connections()).filter((it) => / sub=1 /.test(it))) {
          await behind.redis.client("KILL", "ID", /^id=(\d+)/.exec(line)![1]!);
        }
        await eventually(async () => {
          assertEquals(await behind.redis.pubsub("NUMSUB", channel), [channel, 1]);
        });
      }
      assertEquals(await mailbox.cancel(id), true);
      assertEquals([await heard.promise, await other.promise], [id, id]);
      assertEquals(await mailbox.acknowledgeMany([message!]), [false]);
      [heard, other] = [deferred<string>(), deferred<string>()];
    }
    for (const stop of stops) await stop();
  });
});

describe("queues on Redis", gate, () => {
  it("the replies of a process expire, and a closed mailbox leaves none", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox, name } = it;
    const asked = mailbox.request("ping");
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    const replies = `{lastcall:${message!.replyTo!}}*`;
    // A reply that no process receives: it has ended.
    await behind.redis.hset(`{lastcall:${message!.replyTo!}}:meta`, "paused", "1");
    await message!.reply("pong");
    const keys = await behind.redis.keys(replies);
    assert(keys.length >= 4, keys.join());
    for (const key of keys) {
      const seconds = await behind.redis.ttl(key);
      assert(seconds > 3_600 && seconds <= 86_400, `${key} expires in ${seconds} s`);
    }
    await behind.redis.hdel(`{lastcall:${message!.replyTo!}}:meta`, "paused");
    await behind.redis.publish(`{lastcall:${message!.replyTo!}}:wake`, "");
    assertEquals(await asked, "pong");
    assertEquals((await mailbox.queues()).some((queue) => queue.name === message!.replyTo), true);
    await mailbox.close();
    assertEquals(await behind.redis.keys(replies), []);
    assertEquals(await behind.redis.ttl(`{lastcall:${name}}:meta`), -1);
  });

  it("a mailbox of the user does not expire, whatever its name", async () => {
    await using it = await openForTest(url, { name: `${uniqueName()}.replies.eu` });
    await using behind = look();
    await it.mailbox.send("work", { key: "a" });
    await it.mailbox.receive();
    const keys = await behind.redis.keys(`{lastcall:${it.name}}*`);
    for (const key of keys) assertEquals(await behind.redis.ttl(key), -1, key);
  });

  it("queues lists queues of other mailboxes, without dead letters, and a paused one", async () => {
    await using it = await openForTest(url);
    await using other = await openForTest(url);
    await it.mailbox.send("work");
    await (await it.mailbox.receive())[0]!.deadLetter({ reason: "test" });
    await other.mailbox.sendMany(["a1", "a2"], { key: "a" });
    await other.mailbox.pause();
    const queues = await it.mailbox.queues();
    const own = queues.find(({ name }) => name === it.name);
    const others = queues.find(({ name }) => name === other.name);
    assertEquals([own?.waiting, own?.dead, own?.paused], [0, 1, false]);
    assertEquals([others?.waiting, others?.dead, others?.paused], [2, 0, true]);
  });
});
