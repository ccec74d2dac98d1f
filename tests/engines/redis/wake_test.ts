import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Redis } from "ioredis";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { eventually } from "../_servers.ts";
import { cleanUp, gate, look, openForTest, uniqueName, url } from "./_redis.ts";

/** No poll and a long wait: only a notification can wake in time. */
const BY_NOTIFICATION = { pollIntervalMs: 600_000 };
const WAIT = { waitTimeMs: 60_000 };

async function listeners(redis: Redis, name: string): Promise<number> {
  const [, count] = await redis.pubsub("NUMSUB", `{lastcall:${name}}:wake`) as [string, number];
  return count;
}

async function connections(redis: Redis, connectionName: string): Promise<number> {
  const list = await redis.client("LIST") as string;
  return list.split("\n").filter((line) => line.includes(`name=${connectionName} `)).length;
}

describe("waiting receives on Redis", gate, () => {
  it("a waiting receive is woken by a send, a release, a nack and the end of a delay", async () => {
    await using it = await openForTest(url, BY_NOTIFICATION);
    await using behind = look();
    const { mailbox, name } = it;
    await using other = await RedisMailbox.open<unknown>(url, { name, ...BY_NOTIFICATION });

    const sent = mailbox.receive(WAIT);
    await eventually(async () => assertEquals(await listeners(behind.redis, name), 1));
    await other.send("sent");
    assertEquals((await sent)[0]?.body, "sent");
    await (await sent)[0]!.acknowledge();

    await other.send("work");
    for (const call of ["release", "nack"] as const) {
      const [held] = await other.receive();
      const waiting = mailbox.receive(WAIT);
      await held![call]();
      const [message] = await waiting;
      assertEquals(message?.body, "work");
      await message!.release();
    }
    await mailbox.purge();

    const due = mailbox.receive(WAIT);
    await other.send("late", { delayMs: 50 });
    assertEquals((await due)[0]?.body, "late");
  });

  it("a waiting receive is woken by the end of another's lease", async () => {
    await using it = await openForTest(url, BY_NOTIFICATION);
    await using other = await RedisMailbox.open<unknown>(url, {
      name: it.name,
      ...BY_NOTIFICATION,
    });
    await other.send("work");
    const [held] = await other.receive({ visibilityTimeoutMs: 100 });
    assertEquals((await it.mailbox.receive(WAIT))[0]?.body, "work");
    assertEquals(held?.deliveryCount, 1);
  });

  it("many waiting receives all get messages", async () => {
    await using it = await openForTest(url, BY_NOTIFICATION);
    await using other = await RedisMailbox.open<unknown>(url, { name: it.name });
    const waiting = Array.from({ length: 20 }, () => it.mailbox.receive(WAIT));
    for (let i = 0; i < 10; i++) await other.send(i);
    await other.sendMany([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    const bodies = (await Promise.all(waiting)).flat().map(({ body }) => Number(body));
    assertEquals(bodies.sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i));
  });

  it("a waiting receive finds messages by polling when notifications are lost", async () => {
    const name = uniqueName();
    await using behind = look();
    const client = behind.redis;
    // Its notifications are lost.
    const withoutNotifications = {
      evalsha: client.evalsha.bind(client),
      eval: client.eval.bind(client),
      duplicate: () => ({
        subscribe: () => Promise.resolve(),
        unsubscribe: () => Promise.resolve(),
        on: () => {},
        disconnect: () => {},
      }),
    };
    {
      await using mailbox = await RedisMailbox.open<string>(withoutNotifications as never, {
        name,
        pollIntervalMs: 20,
      });
      await using other = await RedisMailbox.open<string>(url, { name });
      const waiting = mailbox.receive(WAIT);
      await other.send("work");
      assertEquals((await waiting)[0]?.body, "work");
    }
    await cleanUp(name);
  });

  it("waiting receives share one more connection, and a closed mailbox has none", async () => {
    const name = uniqueName();
    await using behind = look();
    const at = `${url}?connectionName=${name}`;
    const mailbox = await RedisMailbox.open<unknown>(at, { name });
    assertEquals(await connections(behind.redis, name), 1);
    const waiting = [mailbox.receive(WAIT), mailbox.receive(WAIT)];
    const letters = mailbox.deadLetters.receive(WAIT);
    await eventually(async () => assertEquals(await listeners(behind.redis, `${name}`), 1));
    await eventually(async () => assertEquals(await connections(behind.redis, name), 2));
    await mailbox.close();
    assertEquals(await Promise.all([...waiting, letters]), [[], [], []]);
    await eventually(async () => assertEquals(await connections(behind.redis, name), 0));
    await cleanUp(name);
  });

  it("a closed mailbox unsubscribes, and the shared client stays open", async () => {
    const [name, other] = [uniqueName(), uniqueName()];
    await using behind = look();
    const staying = await RedisMailbox.open<unknown>(behind.redis, { name: other });
    const mailbox = await RedisMailbox.open<unknown>(behind.redis, { name });
    const waiting = mailbox.receive(WAIT);
    await eventually(async () => assertEquals(await listeners(behind.redis, name), 1));
    await mailbox.close();
    assertEquals(await waiting, []);
    await eventually(async () => assertEquals(await listeners(behind.redis, name), 0));
    await staying.close();
  });
});
