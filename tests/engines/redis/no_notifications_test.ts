// Workers that cannot subscribe to notifications: they poll.

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Redis } from "ioredis";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { fire, hire } from "../_workers.ts";
import { BreakingProxy } from "../_proxy.ts";
import { look } from "./_redis.ts";

const gate = { skip: hasBinary(redis) ? false : missing(redis) };

/** The warning of a worker that cannot subscribe. */
const SAYS = "cannot listen for messages";

/** Waits until so many connections listen. */
async function listening(admin: Redis, count: number): Promise<void> {
  await eventually(async () => {
    const [, found] = await admin.pubsub("NUMSUB", "{lastcall:default}:wake") as [string, number];
    assertEquals(found, count);
  });
}

const ofWorker = (port: number) => `redis://worker:secret@127.0.0.1:${port}`;

describe("RedisMailbox without notifications", gate, () => {
  for (const rule of ["resetchannels", "-subscribe"]) {
    it(`a worker that may not subscribe any more polls and warns once (${rule})`, async () => {
      await using server = await PrivateServer.start(redis);
      await using behind = look(server.url);
      const admin = behind.redis;
      await admin.call("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all");
      await using mailbox = await RedisMailbox.open<number>(server.url);
      await using worker = await hire(ofWorker(server.port));
      await listening(admin, 1);
      await admin.call("ACL", "SETUSER", "worker", rule);
      for (let round = 0; round < 3; round++) {
        await mailbox.send(round);
        await admin.call("CLIENT", "KILL", "USER", "worker"); // waiting receives poll then
        await worker.says(SAYS);
        await worker.line(`done ${round}`);
      }
      worker.kill("SIGTERM");
      const { code, stderr } = await worker.exit();
      assertEquals([code, stderr.split(SAYS).length - 1], [0, 1], stderr);
    });
  }

  it("a mailbox works without the permission to subscribe, and uses it once granted", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    const admin = behind.redis;
    await admin.call("ACL", "SETUSER", "worker", "on", ">secret", "~*", "resetchannels", "+@all");
    await using mailbox = await RedisMailbox.open<unknown>(ofWorker(server.port), {
      pollIntervalMs: 50,
      log: silentLog,
    });
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    await mailbox.send("first"); // its script may not publish, and stores the message once
    const [first] = await waiting;
    assertEquals([first?.body, await mailbox.approximateCount()], ["first", 1]);
    await first!.nack({ delayMs: 1 });
    const [again] = await mailbox.receive({ waitTimeMs: 60_000 });
    await again!.deadLetter({ reason: "test" });
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
    await admin.call("ACL", "SETUSER", "worker", "allchannels");
    const later = mailbox.receive({ waitTimeMs: 60_000 });
    await listening(admin, 1);
    await mailbox.send("second");
    assertEquals((await later)[0]?.body, "second");
  });

  it("a worker whose subscriptions are cut handles all messages", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    await using proxy = await BreakingProxy.before(server.port);
    await using mailbox = await RedisMailbox.open<number>(server.url);
    await using worker = await hire(`redis://127.0.0.1:${proxy.port}`);
    await listening(behind.redis, 1);
    proxy.onCommand = (data) => /subscribe/i.test(data) ? "cut" : "pass";
    await behind.redis.call("CLIENT", "KILL", "TYPE", "pubsub");
    await mailbox.send(1);
    await eventually(() => Promise.resolve(assertEquals(proxy.cuts >= 3, true)));
    await worker.line("done 1");
    proxy.onCommand = () => "pass";
    await listening(behind.redis, 1);
    await mailbox.send(2);
    await worker.line("done 2");
    assertEquals(await fire(worker), [1, 2]);
  });
});
