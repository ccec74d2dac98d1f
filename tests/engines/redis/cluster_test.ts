import { after, before, describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Cluster } from "ioredis";
import { openRedisBoard } from "../../../src/coordination/mod.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import {
  InvalidParameterError,
  MailboxConnectionError,
  MailboxLoop,
  openMailbox,
} from "../../../mod.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { fire, hire } from "../_workers.ts";
import { PrivateCluster } from "./_cluster.ts";

describe("RedisMailbox on a cluster", { skip: hasBinary(redis) ? false : missing(redis) }, () => {
  let cluster: PrivateCluster;
  before(async () => {
    cluster = await PrivateCluster.start(3);
  });
  after(async () => {
    await cluster[Symbol.asyncDispose]();
  });

  /** Waits until so many connections listen, on all nodes together. */
  const listening = (name: string, count: number, part = "wake") =>
    eventually(async () => {
      const channel = `{lastcall:${name}}:${part}`;
      const found = await Promise.all(cluster.nodes.map(async (node) => {
        const [, here] = await node.pubsub("NUMSUB", channel) as [string, number];
        return here;
      }));
      assertEquals(found.reduce((sum, here) => sum + here, 0), count);
    });

  /** Uses every call of a mailbox and its dead letters, with a wake-up by notification. */
  const useAll = async (mailbox: RedisMailbox<string>) => {
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    await listening(mailbox.name, 1);
    await mailbox.send("first");
    const [message] = await waiting;
    await message!.saveCheckpoint("half");
    await message!.extendVisibility(60_000);
    await message!.release();
    const [again] = await mailbox.receive();
    assertEquals([again?.body, again?.checkpoint, again?.deliveryCount], ["first", "half", 1]);
    await again!.deadLetter({ reason: "test" });
    const [letter] = await mailbox.deadLetters.receive();
    await letter!.acknowledge();
    assertEquals(await mailbox.purge(), 0);
    await useNewer(mailbox);
  };

  /** Uses keys, priorities, remembered ids, requests, and what finds, cancels, counts and pauses. */
  const useNewer = async (mailbox: RedisMailbox<string>) => {
    const sent = await mailbox.sendMany(["a1", "a2", "b1"], (body) => ({
      id: `id of ${body}`,
      dedupMs: 60_000,
      key: body[0]!,
      ...(body === "b1" && { priority: 9 }),
    }));
    assertEquals((await mailbox.send("a1", { id: sent[0]!.id, dedupMs: 1 })).stored, false);
    const [b1, a1] = await mailbox.receive({ maxMessages: 10 });
    assertEquals([b1?.body, a1?.body], ["b1", "a1"]);
    const heard = deferred<string>();
    const stop = mailbox.onCancel((id) => heard.resolve(id));
    await listening(mailbox.name, 1, "cancel");
    assertEquals(await mailbox.cancel(a1!.id), true);
    assertEquals(await heard.promise, a1!.id);
    await stop();
    assertEquals((await mailbox.get(sent[1]!.id))?.state, "waiting");
    await mailbox.pause();
    assertEquals(await mailbox.receive(), []);
    const { waiting, inFlight, paused } = await mailbox.stats();
    assertEquals([waiting, inFlight, paused], [1, 1, true]);
    await mailbox.resume();
    await b1!.acknowledge();
    await (await mailbox.receive())[0]!.acknowledge();
    const replying = mailbox.request("ping");
    const [request] = await mailbox.receive({ waitTimeMs: 10_000 });
    await request!.reply("pong");
    await request!.acknowledge();
    assertEquals(await replying, "pong");
    assert((await mailbox.queues()).some(({ name }) => name === mailbox.name));
  };

  it("a cluster URL opens a mailbox on any node", async () => {
    const owners = new Set<number>();
    for (let i = 0; i < 50 && owners.size < 3; i++) {
      const name = `orders-${i}`;
      const owner = await cluster.ownerOf(name);
      if (owners.has(owner)) continue;
      owners.add(owner);
      await using mailbox = await RedisMailbox.open<string>(cluster.url, {
        name,
        pollIntervalMs: 600_000,
      });
      await useAll(mailbox);
    }
    assertEquals(owners.size, 3);
    await using any = await RedisMailbox.open<string>(cluster.url, { name: "any" });
    const names = (await any.queues()).map(({ name }) => name);
    assertEquals(names.filter((name) => /^orders-\d+$/.test(name)).length, 3, "of all nodes");
    assertEquals(names.filter((name) => name.includes(".replies.")), []);
  });

  it("a Cluster client of the caller opens a mailbox", async () => {
    const client = new Cluster([{ host: "127.0.0.1", port: cluster.ports[0]! }], {
      retryDelayOnFailover: 0,
    });
    const mailbox = await RedisMailbox.open<string>(client, {
      name: "handed-in",
      pollIntervalMs: 600_000,
    });
    await useAll(mailbox);
    await mailbox.close();
    client.disconnect();
  });

  it("a cluster URL works while its first node is down", async () => {
    await using away = await PrivateServer.start(redis);
    await away.kill();
    const url = `redis+cluster://127.0.0.1:${away.port},127.0.0.1:${cluster.ports[2]}?queue=found`;
    await using mailbox = await openMailbox<string>(url);
    await mailbox.send("work");
    assertEquals((await mailbox.receive()).map(({ body }) => body), ["work"]);
  });

  it("a single-server URL of a cluster node fails and names the cluster URL", async () => {
    const name = "elsewhere";
    const other = (await cluster.ownerOf(name) + 1) % 3;
    const error = await assertRejects(
      () => RedisMailbox.open(`redis://127.0.0.1:${cluster.ports[other]}`, { name }),
      MailboxConnectionError,
    );
    assertStringIncludes(error.message, "redis+cluster://");
  });

  it("workers that die are not detected on a cluster, and one log line says so", async () => {
    const name = "undetected";
    const node = cluster.ports[await cluster.ownerOf(name)];
    for (const url of [cluster.url, `redis://127.0.0.1:${node}`]) {
      const logged: [string, unknown][] = [];
      const note: Log["info"] = (event, fields) => void logged.push([event, fields?.["reason"]]);
      const log = { ...silentLog, info: note, warn: note };
      await using mailbox = await RedisMailbox.open<string>(url, { name, log });
      await mailbox.sendMany(["one", "two"]);
      for (const body of ["one", "two"]) {
        const [message] = await mailbox.receive();
        assertEquals(message?.body, body);
        await message!.acknowledge();
      }
      assertEquals(mailbox.capabilities.ownerDetection, false);
      assertEquals(logged.length, 1);
      const [event, reason] = logged[0]!;
      assertStringIncludes(event, "workers that die are not detected");
      assertStringIncludes(`${reason}`, "cluster");
    }
  });

  it("a board works on a cluster", async () => {
    const board = await openRedisBoard(cluster.url, { log: silentLog });
    await board.setState("worker-1", "running");
    assertEquals((await board.list()).map(({ agentId }) => agentId), ["worker-1"]);
    await board.close();
  });

  it("moving the slot of a mailbox under load loses no message and repeats none", async () => {
    const name = "moving";
    const options = { name, log: silentLog };
    await using mailbox = await RedisMailbox.open<number>(cluster.url, options);
    const seen: number[] = [];
    await using loop = new MailboxLoop({
      mailbox,
      handler: ({ body }) => void seen.push(body),
      concurrency: 10,
      log: silentLog,
    });
    const running = loop.run({ visibilityTimeoutMs: 60_000 });
    let sent = 0;
    let moving = true;
    const sending = (async () => {
      // A failed send may have been stored: with an id it is not stored again.
      while (moving) {
        const body = sent++;
        const options = body % 2 === 0 ? {} : { key: `key-${body % 7}`, priority: body % 3 };
        await eventually(() => mailbox.send(body, { id: `id-${body}`, ...options }));
      }
    })();
    for (let round = 0; round < 3; round++) {
      const before = seen.length;
      await eventually(() => Promise.resolve(assert(seen.length > before + 20)));
      await cluster.move(name, (await cluster.ownerOf(name) + 1) % 3);
    }
    moving = false;
    await sending;
    await eventually(async () => assertEquals(await mailbox.approximateCount(), 0));
    await loop.shutdown();
    await running;
    assertEquals(seen.sort((a, b) => a - b), Array.from({ length: sent }, (_, i) => i));
    assertEquals(loop.counts.acknowledged, sent);
  });

  it("a worker process with a cluster URL handles all messages", async () => {
    await using mailbox = await RedisMailbox.open<number>(cluster.url);
    await using worker = await hire(cluster.url);
    await mailbox.sendMany([1, 2, 3]);
    for (const job of [1, 2, 3]) await worker.line(`done ${job}`);
    assertEquals((await fire(worker)).length, 3);
  });
});

describe("Redis cluster URLs", { skip: hasBinary(redis) ? false : missing(redis) }, () => {
  it("an invalid cluster URL is refused without showing the password", async () => {
    for (
      const bad of ["redis+cluster://", "redis+cluster://u:secret@h:1/2", "redis+cluster://h:x"]
    ) {
      const error = await assertRejects(() => RedisMailbox.open(bad), InvalidParameterError);
      assertEquals(/secret/.test(error.message), false, error.message);
    }
  });

  it("opening a cluster that does not answer, or is none, fails in time and says why", async () => {
    const at = (port: number) => `redis+cluster://user:secret@127.0.0.1:${port}`;
    const options = { log: silentLog, callTimeoutMs: 2_000 };
    await using server = await PrivateServer.start(redis);
    for (
      const [url, why] of [
        [at(1), "redis+cluster://127.0.0.1:1"],
        [at(server.port), "WRONGPASS"],
        [`redis+cluster://127.0.0.1:${server.port}`, "use redis://"],
      ] as const
    ) {
      const error = await assertRejects(
        () => RedisMailbox.open(url, options),
        MailboxConnectionError,
        why,
      );
      assertEquals(/secret/.test(`${error.message}${JSON.stringify(error.cause)}`), false);
    }
  });
});
