import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { MailboxLoop } from "../../../mod.ts";
import type { RedisClient } from "../../../src/engines/redis/mod.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { cleanUp, gate, look, uniqueName } from "./_redis.ts";

/** Opens a mailbox whose calls are counted, and fail while `broken`. */
async function openCounted() {
  const behind = look();
  const { redis } = behind;
  const traffic = { calls: 0, broken: false };
  const pass = <T>(call: () => Promise<T>): Promise<T> => {
    traffic.calls++;
    return traffic.broken ? Promise.reject(new Error("Connection is closed.")) : call();
  };
  const client: RedisClient = {
    evalsha: (...args) => pass(() => redis.evalsha(...args)),
    eval: (...args) => redis.eval(...args),
    duplicate: () => redis.duplicate(),
  };
  const name = uniqueName();
  const mailbox = await RedisMailbox.open<number>(client, { name, log: silentLog });
  return {
    mailbox,
    redis,
    traffic,
    async [Symbol.asyncDispose]() {
      traffic.broken = false;
      await mailbox.close();
      await behind[Symbol.asyncDispose]();
      await cleanUp(name);
    },
  };
}

describe("acknowledgements with a receive on Redis", gate, () => {
  it("the receive of the next message carries the acknowledgement", async () => {
    await using it = await openCounted();
    const { mailbox, traffic } = it;
    await mailbox.sendMany(Array.from({ length: 20 }, (_, i) => i));
    await mailbox.approximateCount(); // now the server knows the scripts
    traffic.calls = 0;
    const loop = new MailboxLoop({ mailbox, handler: () => {}, log: silentLog });
    await loop.run({ maxIterations: 20 });
    assertEquals(loop.counts.acknowledged, 20);
    assert(traffic.calls <= 23, `${traffic.calls} calls for 20 messages`);
  });

  it("a receive carries the acknowledgements of its turn, whichever was called first", async () => {
    await using it = await openCounted();
    const { mailbox, traffic } = it;
    await mailbox.sendMany([1, 2, 3]);
    const [one] = await mailbox.receive();
    traffic.calls = 0;
    const [, [two]] = await Promise.all([one!.acknowledge(), mailbox.receive()]);
    assertEquals(traffic.calls, 1);
    const [[three]] = await Promise.all([mailbox.receive(), two!.acknowledge()]);
    assertEquals([traffic.calls, three?.body], [2, 3]);
    await three!.acknowledge();
    assertEquals([traffic.calls, await mailbox.approximateCount()], [3, 0]);
  });

  it("carried acknowledgements return a result for each message", async () => {
    await using it = await openCounted();
    const { mailbox } = it;
    await mailbox.send(1);
    const [late] = await mailbox.receive({ visibilityTimeoutMs: 20 });
    const [again] = await mailbox.receive({ waitTimeMs: 5_000 });
    await mailbox.sendMany([2, 3]);
    const [two] = await mailbox.receive();
    const [both, alone, [next]] = await Promise.all([
      mailbox.acknowledgeMany([late!, again!]),
      mailbox.acknowledgeMany([two!]),
      mailbox.receive(),
    ]);
    assertEquals([both, alone], [[false, true], [true]]);
    assertEquals(next?.body, 3);
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("carried acknowledgements fail with their receive and can be repeated", async () => {
    await using it = await openCounted();
    const { mailbox, traffic } = it;
    await mailbox.sendMany([1, 2]);
    const [message] = await mailbox.receive();
    traffic.broken = true;
    const receiving = mailbox.receive();
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    await assertRejects(() => receiving, MailboxConnectionError);
    traffic.broken = false;
    const [, [next]] = await Promise.all([message!.acknowledge(), mailbox.receive()]);
    assertEquals([next?.body, next?.deliveryCount], [2, 1]);
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("carried acknowledgements free chosen ids", async () => {
    await using it = await openCounted();
    const { mailbox, redis } = it;
    await mailbox.send(1, { id: "chosen" });
    const [message] = await mailbox.receive();
    const ids = `{lastcall:${mailbox.name}}:ids`;
    assertEquals(await redis.exists(ids), 1);
    await Promise.all([message!.acknowledge(), mailbox.receive()]);
    assertEquals(await redis.exists(ids), 0);
  });
});
