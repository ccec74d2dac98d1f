// A worker process that was killed, frozen or cut off, and what happens to the messages it holds.

import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ReceiptHandleExpiredError } from "../../../mod.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { BreakingProxy } from "../_proxy.ts";
import { cleanUp, gate, openForTest, uniqueName, url } from "./_redis.ts";
import { hold, Watcher } from "./_watcher.ts";

const own = { skip: hasBinary(redis) ? false : missing(redis) };

/** Opens a watcher of a queue on the shared server. Its disposal deletes the queue. */
async function watch(name = uniqueName()): Promise<{
  readonly name: string;
  readonly watcher: Watcher;
  [Symbol.asyncDispose](): Promise<void>;
}> {
  const watcher = await Watcher.open(url, name);
  return {
    name,
    watcher,
    async [Symbol.asyncDispose]() {
      await watcher[Symbol.asyncDispose]();
      await cleanUp(name);
    },
  };
}

describe("RedisMailbox when a worker dies", gate, () => {
  it("the messages of a killed process are received within seconds", async () => {
    await using it = await watch();
    const { mailbox, warnings } = it.watcher;
    await mailbox.sendMany(["one", "two"]);
    await using holder = await hold(2, url, it.name);
    assertEquals(await mailbox.receive(), []);
    const startedAt = Date.now();
    holder.kill("SIGKILL");
    const found = await mailbox.receive({ maxMessages: 10, waitTimeMs: 30_000 });
    const tookMs = Date.now() - startedAt;
    assertEquals(
      found.map(({ body, deliveryCount, leaseExpiries }) => [body, deliveryCount, leaseExpiries]),
      [["one", 2, 1], ["two", 2, 1]],
    );
    assert(tookMs < 10_000, `${tookMs} ms`);
    assertEquals(warnings.map(([event, { messages }]) => [event, messages]), [
      ["worker died; its messages are delivered again", 2],
    ]);
    assertEquals(await it.watcher.owners(), 1, "the dead one is removed");
    assertEquals(mailbox.capabilities.ownerDetection, true);
  });

  it("a frozen process keeps its messages, and can acknowledge them later", async () => {
    await using it = await watch();
    await it.watcher.mailbox.send("work");
    await using holder = await hold(1, url, it.name);
    holder.kill("SIGSTOP");
    await it.watcher.seesNothing(5);
    holder.kill("SIGCONT");
    holder.kill("SIGTERM");
    await holder.line("acknowledged work");
  });

  it("a key stays blocked behind the message of the killed process", async () => {
    await using it = await watch();
    const { mailbox } = it.watcher;
    await mailbox.sendMany(["first", "second"], { key: "customer" });
    await using holder = await hold(1, url, it.name);
    assertEquals(await mailbox.receive({ maxMessages: 10 }), []);
    holder.kill("SIGKILL");
    const receive = () => mailbox.receive({ maxMessages: 10, waitTimeMs: 30_000 });
    const [first, ...others] = await receive();
    assertEquals([first?.body, others], ["first", []]);
    await first!.acknowledge();
    assertEquals((await receive()).map(({ body }) => body), ["second"]);
  });

  it("all of many messages on two queues of one process are found", async () => {
    await using one = await watch();
    await using two = await watch();
    const bodies = Array.from({ length: 1_200 }, (_, i) => i);
    for (const { watcher } of [one, two]) await watcher.mailbox.sendMany(bodies);
    await using holder = await hold(bodies.length, url, one.name, two.name);
    holder.kill("SIGKILL");
    for (const { watcher } of [one, two]) {
      const found: unknown[] = [];
      while (found.length < bodies.length) {
        const some = await watcher.mailbox.receive({ maxMessages: 1_000, waitTimeMs: 30_000 });
        assert(some.length > 0);
        found.push(...some.map(({ body }) => body));
      }
      assertEquals(found.sort((a, b) => Number(a) - Number(b)), bodies);
    }
  });

  it("a worker without a free slot finds the killed process, too", async () => {
    await using it = await watch();
    const { mailbox, admin } = it.watcher;
    await mailbox.send("work");
    await using holder = await hold(1, url, it.name);
    holder.kill("SIGKILL");
    await holder.exit();
    await eventually(async () => {
      const channels = await admin.pubsub("CHANNELS", `{lastcall:${it.name}}:owner:*`);
      assertEquals((channels as string[]).length, 0);
    });
    await mailbox.send("own work");
    const [own] = await mailbox.receive(); // and no further receive, as if all slots were taken
    assertEquals(own?.body, "own work");
    await eventually(async () => assertEquals((await mailbox.stats()).waiting, 1));
  });

  it("a killed process is found among many others", async () => {
    await using it = await watch();
    const { mailbox, admin } = it.watcher;
    await mailbox.send("work");
    await using holder = await hold(1, url, it.name);
    await using _second = await watch(it.name);
    await mailbox.receive();
    const [, runId] = /run_id:(\w+)/.exec(await admin.info("server"))!;
    for (let i = 0; i < 100; i++) {
      await admin.hset(`{lastcall:${it.name}}:owners`, `dead-${i}`, i % 2 === 0 ? runId! : "other");
    }
    await it.watcher.seesNothing(1);
    holder.kill("SIGKILL");
    const [found] = await mailbox.receive({ waitTimeMs: 30_000 });
    assertEquals([found?.body, found?.leaseExpiries], ["work", 1]);
    await eventually(async () => assertEquals(await it.watcher.owners(), 1));
  });

  it("a mailbox that was closed keeps its leases until they expire", async () => {
    await using it = await watch();
    await it.watcher.mailbox.send("work");
    const closed = await RedisMailbox.open(url, { name: it.name, log: silentLog });
    assertEquals((await closed.receive()).length, 1);
    assertEquals(await it.watcher.owners(), 1, "it is registered before it gets a message");
    await it.watcher.seesNothing(3); // its last call is some time ago
    assertEquals(await it.watcher.owners(), 2);
    await closed.close();
    assertEquals(await it.watcher.owners(), 1);
    await it.watcher.seesNothing(4);
  });

  it("an idle queue is not watched, and one with delayed messages neither", async () => {
    await using it = await watch();
    const { mailbox } = it.watcher;
    for (let i = 0; i < 3; i++) assertEquals(await mailbox.receive({ waitTimeMs: 400 }), []);
    await mailbox.send("later", { delayMs: 600_000 });
    for (let i = 0; i < 3; i++) assertEquals(await mailbox.receive({ waitTimeMs: 400 }), []);
    assertEquals(it.watcher.looks, 0);
  });
});

describe("RedisMailbox when a connection breaks", own, () => {
  it("a process that reconnects keeps its messages, and is watched on", async () => {
    await using server = await PrivateServer.start(redis);
    await using watcher = await Watcher.open(server.url, "orders");
    const { mailbox, admin } = watcher;
    await mailbox.send("work");
    await using proxy = await BreakingProxy.before(server.port);
    await using holder = await hold(1, `redis://127.0.0.1:${proxy.port}`, "orders");
    const present = (count: number) =>
      eventually(async () => {
        const channels = await admin.pubsub("CHANNELS", "{lastcall:orders}:owner:*");
        assertEquals((channels as string[]).length, count);
      });
    await watcher.seesNothing(1);
    for (let i = 0; i < 2; i++) {
      await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
      await watcher.seesNothing(1);
      proxy.onCommand = () => "cut";
      proxy.cutAll();
      await present(1);
      await watcher.seesNothing(1); // it is away in this look, and back in the next one
      proxy.onCommand = () => "pass";
      await present(2);
      await watcher.seesNothing(2);
    }
    holder.kill("SIGKILL");
    assertEquals((await mailbox.receive({ waitTimeMs: 30_000 }))[0]?.body, "work");
  });

  it("a restarted server judges no process before it has registered again", async () => {
    await using server = await PrivateServer.start(redis);
    await using watcher = await Watcher.open(server.url, "orders");
    const { mailbox } = watcher;
    await mailbox.sendMany(["awake", "frozen"]);
    await using awake = await hold(1, server.url, "orders");
    await using frozen = await hold(1, server.url, "orders");
    await watcher.seesNothing(1);
    frozen.kill("SIGSTOP");
    await server.kill();
    await server.start();
    await watcher.seesNothing(5);
    frozen.kill("SIGCONT");
    await eventually(async () => assertEquals(await watcher.owners(), 3));
    await watcher.seesNothing(1);
    awake.kill("SIGTERM");
    await awake.line("acknowledged awake");
    frozen.kill("SIGKILL");
    assertEquals((await mailbox.receive({ waitTimeMs: 30_000 }))[0]?.body, "frozen");
  });

  it("a process that was away for too long cannot acknowledge, and is registered again", async () => {
    await using it = await openForTest(url);
    await using watcher = await Watcher.open(url, it.name);
    await using proxy = await BreakingProxy.before(Number(new URL(url).port || 6379));
    const options = { name: it.name, log: silentLog };
    const away = await RedisMailbox.open(`redis://127.0.0.1:${proxy.port}`, options);
    await watcher.mailbox.send("work");
    const [held] = await away.receive();
    await watcher.mailbox.receive();
    proxy.onCommand = () => "cut";
    proxy.cutAll();
    const [found] = await watcher.mailbox.receive({ waitTimeMs: 30_000 });
    assertEquals([found?.body, found?.leaseExpiries], ["work", 1]);
    proxy.onCommand = () => "pass";
    await eventually(async () => assertEquals(await watcher.owners(), 2));
    await assertRejects(() => held!.acknowledge(), ReceiptHandleExpiredError);
    await found!.acknowledge();
    await away.close();
  });

  it("a process that may not subscribe any more keeps its messages", async () => {
    await using server = await PrivateServer.start(redis);
    await using watcher = await Watcher.open(server.url, "orders");
    const { mailbox, admin } = watcher;
    await admin.call("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all");
    await mailbox.send("work");
    await using holder = await hold(1, `redis://worker:secret@127.0.0.1:${server.port}`, "orders");
    await watcher.seesNothing(1);
    assertEquals(await watcher.owners(), 2);
    await admin.call("ACL", "SETUSER", "worker", "resetchannels"); // this ends the subscriptions
    await watcher.seesNothing(4);
    assertEquals(await watcher.owners(), 1);
    holder.kill("SIGTERM");
    await holder.line("acknowledged work");
  });

  it("an owner that has lost its registration registers again", async () => {
    await using it = await openForTest(url);
    await using watcher = await Watcher.open(url, it.name);
    await it.mailbox.send("work");
    assertEquals((await watcher.mailbox.receive()).length, 1);
    await watcher.admin.unlink(`{lastcall:${it.name}}:owners`);
    await watcher.seesNothing(1);
    await eventually(async () => assertEquals(await watcher.owners(), 1));
  });
});

describe("RedisMailbox without owner detection", own, () => {
  for (
    const [rule, reason] of [
      ["-info", "the user may not run INFO"],
      ["-pubsub", "the user may not run PUBSUB"],
      ["-subscribe", undefined],
    ] as const
  ) {
    it(`a mailbox works without detection and says so once (${rule})`, async () => {
      await using server = await PrivateServer.start(redis);
      await using watcher = await Watcher.open(server.url, "orders");
      await watcher.admin.call("ACL", "SETUSER", "default", rule);
      const { mailbox, warnings } = watcher;
      for (const body of ["one", "two"]) {
        await mailbox.send(body);
        assertEquals((await mailbox.receive()).map((it) => it.body), [body]);
      }
      assertEquals(mailbox.capabilities.ownerDetection, false);
      assertEquals(await watcher.owners(), 0);
      assertEquals(watcher.looks, 0);
      assertEquals(warnings.length, 1);
      const [event, fields] = warnings[0]!;
      assertEquals(fields["reason"], reason);
      assert(/visibility timeout passes/.test(event), event);
      const same = mailbox.capabilities;
      assert(mailbox.capabilities === same);
    });
  }
});
