// A server that has reached its `maxmemory` and evicts nothing refuses sends only.

import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { Redis } from "ioredis";
import { LoopGroup, MailboxConnectionError, MailboxLoop } from "../../../mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { healthApp } from "../../../src/health/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { FakeRuntime } from "../../../src/testing/mod.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { look } from "./_redis.ts";

const gate = { skip: hasBinary(redis) ? false : missing(redis) };

/** Starts a server whose memory can be filled and freed, with a mailbox on it. */
async function startSite(options: RedisMailboxOptions = {}): Promise<
  & {
    readonly mailbox: RedisMailbox<unknown>;
    readonly admin: Redis;
    fill(): Promise<unknown>;
    free(): Promise<unknown>;
  }
  & AsyncDisposable
> {
  const server = await PrivateServer.start(redis);
  const behind = look(server.url);
  const admin = behind.redis;
  const mailbox = await RedisMailbox.open<unknown>(server.url, { log: silentLog, ...options });
  return {
    mailbox,
    admin,
    fill: () => admin.config("SET", "maxmemory", "1"),
    free: () => admin.config("SET", "maxmemory", "0"),
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      await behind[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe("RedisMailbox on a server without memory", gate, () => {
  it("a server without memory refuses sends, and every other call works", async () => {
    await using site = await startSite();
    const { mailbox } = site;
    await mailbox.sendMany(Array.from({ length: 9 }, (_, i) => i));
    const [early] = await mailbox.receive();
    await site.fill();
    await assertRejects(() => mailbox.send("more"), MailboxConnectionError, "nothing was stored");
    const [a, b, c, d, e, f] = await mailbox.receive({ maxMessages: 6 });
    await early!.saveCheckpoint("before anything else was written");
    await a!.extendVisibility(600_000);
    await a!.acknowledge();
    await b!.saveCheckpoint({ page: 1 });
    await b!.saveCheckpoint({ page: 2, text: "x".repeat(1_000) });
    await b!.release();
    await c!.nack();
    await d!.nack({ delayMs: 30 });
    await e!.nack({ delayMs: 20, countsAttempt: false });
    await f!.deadLetter({ reason: "test" });
    await mailbox.extendMany([early!], 600_000);
    const found = new Map<unknown, unknown[]>();
    while (found.size < 6) {
      const messages = await mailbox.receive({ maxMessages: 10, waitTimeMs: 5_000 });
      for (const { body, deliveryCount, checkpoint } of messages) {
        found.set(body, [deliveryCount, (checkpoint as { page?: number } | undefined)?.page]);
      }
    }
    assertEquals([...found].sort(([x], [y]) => Number(x) - Number(y)), [
      [2, [1, 2]],
      [3, [2, undefined]],
      [4, [2, undefined]],
      [5, [1, undefined]],
      [7, [1, undefined]],
      [8, [1, undefined]],
    ]);
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
    await site.free();
    await mailbox.send("more");
  });

  it("a server without memory unblocks keys, cancels, pauses and resumes", async () => {
    await using site = await startSite();
    const { mailbox } = site;
    const sent = await mailbox.sendMany(
      ["a1", "a2", "a3", "a4", "a5"],
      () => ({ key: "a", priority: 2 }),
    );
    const { id } = await mailbox.send("plain");
    await site.fill();
    const send = () => mailbox.send("more", { key: "b", id: "b", dedupMs: 1_000 });
    await assertRejects(send, MailboxConnectionError, "nothing was stored");
    const next = async () => (await mailbox.receive())[0]!;
    await (await next()).acknowledge();
    await (await next()).deadLetter({ reason: "test" });
    await (await next()).nack();
    assertEquals(await mailbox.cancel(sent[2]!.id), true);
    assertEquals(await mailbox.cancel(id), true);
    await mailbox.pause();
    assertEquals(await mailbox.receive(), []);
    await mailbox.resume();
    const held = await next();
    assertEquals([held.body, (await mailbox.get(sent[4]!.id))?.state], ["a4", "waiting"]);
    await held.nack({ delayMs: 600_000 });
    const { waiting, delayed, inFlight } = await mailbox.stats();
    assertEquals([waiting, delayed, inFlight], [1, 1, 0]);
    await site.free();
    assertEquals((await send()).stored, true);
    assertEquals((await next()).body, "more");
  });

  it("a server without memory releases the messages of a lost receive", async () => {
    await using site = await startSite();
    const { admin } = site;
    let losing = false;
    const lossy = {
      async evalsha(...args: Parameters<typeof admin.evalsha>) {
        const answer = await admin.evalsha(...args);
        if (losing) throw new Error("Connection is closed.");
        return answer;
      },
      eval: (...args: Parameters<typeof admin.eval>) => admin.eval(...args),
      duplicate: (options?: object) => admin.duplicate(options),
    };
    await using mailbox = await RedisMailbox.open<unknown>(lossy as never, { log: silentLog });
    await mailbox.sendMany(["a", "b"]);
    const [held] = await mailbox.receive();
    await site.fill();
    losing = true;
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    losing = false;
    const [again] = await mailbox.receive();
    assertEquals([held?.body, again?.body, again?.deliveryCount], ["a", "b", 1]);
  });

  it("a server without memory extends leases; readiness turns off and one warning is logged", async () => {
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (text: string) => void warnings.push(text) };
    await using site = await startSite({ log, pollIntervalMs: 20 });
    const { mailbox } = site;
    const deliveries: number[] = [];
    const work = deferred<void>();
    const begun = deferred<void>();
    const loop = new MailboxLoop({
      mailbox,
      handler: async ({ deliveryCount }) => {
        deliveries.push(deliveryCount);
        begun.resolve();
        await work.promise;
      },
      log: silentLog,
    });
    const options = { runtime: new FakeRuntime(), log: silentLog, shutdownTimeoutMs: 1_000 };
    await using group = new LoopGroup([loop], options);
    const app = healthApp(group, { log: silentLog });
    const ready = async () => (await app.request("/health/ready")).status;
    const running = group.run({ visibilityTimeoutMs: 1_000, waitTimeMs: 60_000 });
    await mailbox.send("long work");
    await begun.promise;
    assertEquals(await ready(), 200);
    await site.fill();
    await eventually(async () => assertEquals(await ready(), 503));
    const status = await (await app.request("/status")).json();
    assertStringIncludes(status.mailboxes[0].error, "no memory");
    assertEquals(status.mailboxes[0].reachable, true);
    const { attempts } = loop.leases.counters;
    await eventually(() => Promise.resolve(assert(loop.leases.counters.attempts > attempts + 3)));
    work.resolve();
    await eventually(async () => assertEquals(await mailbox.approximateCount(), 0));
    assertEquals(await ready(), 503, "it still refuses sends");
    await site.free();
    await eventually(async () => assertEquals(await ready(), 200));
    await group.shutdown();
    await running;
    assertEquals(deliveries, [1]);
    assertEquals(loop.counts.acknowledged, 1);
    assertEquals(warnings.filter((text) => /no memory/.test(text)).length, 1, warnings.join("\n"));
  });
});
