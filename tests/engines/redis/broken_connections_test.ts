// A hundred broken connections under load, and a failover to a replica.

import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import type { Redis } from "ioredis";
import { MailboxLoop } from "../../../mod.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { BreakingProxy } from "../_proxy.ts";
import { look } from "./_redis.ts";

const gate = { skip: hasBinary(redis) ? false : missing(redis) };

const CUTS = 100;
const WORKERS = 8;

/** Breaks connections, a hundred times. */
interface Fault {
  begin(proxy: BreakingProxy, admin: Redis): void;
  /** Returns how often it did. */
  count(proxy: BreakingProxy): number;
}

/** Returns a rule that cuts the connection at every n-th piece of data. */
function everySoMany(few: number, proxy: BreakingProxy, pattern: RegExp) {
  let seen = 0;
  return (data: string) =>
    pattern.test(data) && ++seen % few === 0 && proxy.cuts < CUTS ? "cut" : "pass";
}

const FAULTS: Readonly<Record<string, () => Fault>> = {
  "cut before the command": () => ({
    begin: (proxy) => proxy.onCommand = everySoMany(4, proxy, /eval/i),
    count: (proxy) => proxy.cuts,
  }),
  "cut before its reply": () => ({
    begin: (proxy) => proxy.onReply = everySoMany(6, proxy, /./s),
    count: (proxy) => proxy.cuts,
  }),
  "killed by the server, which forgets the scripts": () => {
    let kills = 0;
    return {
      async begin(_, admin) {
        while (kills < CUTS) {
          await admin.script("FLUSH");
          for (const type of ["normal", "pubsub"]) {
            kills += await admin.call("CLIENT", "KILL", "TYPE", type, "SKIPME", "yes") as number;
          }
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      },
      count: () => kills,
    };
  },
};

describe("RedisMailbox with broken connections", gate, () => {
  for (const [name, makeFault] of Object.entries(FAULTS)) {
    it(`a hundred broken connections lose no message and repeat none: ${name}`, async () => {
      await using server = await PrivateServer.start(redis);
      await using behind = look(server.url);
      await using proxy = await BreakingProxy.before(server.port);
      await using stack = new AsyncDisposableStack();
      const seen: number[] = [];
      const runs: { readonly loop: MailboxLoop<number>; readonly running: Promise<void> }[] = [];
      for (let i = 0; i < WORKERS; i++) {
        const options = { log: silentLog, pollIntervalMs: 100 };
        const mailbox = stack.use(
          await RedisMailbox.open<number>(`redis://127.0.0.1:${proxy.port}`, options),
        );
        const handler = async ({ body }: { readonly body: number }) => {
          await Promise.resolve();
          seen.push(body);
        };
        const loop = stack.use(
          new MailboxLoop({ mailbox, handler, concurrency: 4, log: silentLog }),
        );
        runs.push({ loop, running: loop.run({ visibilityTimeoutMs: 60_000 }) });
      }
      const fault = makeFault();
      void fault.begin(proxy, behind.redis);
      // The sender uses a connection that does not break, so that each send is confirmed once.
      const sender = await RedisMailbox.open<number>(behind.redis, { log: silentLog });
      let sent = 0;
      await eventually(async () => {
        await sender.sendMany(Array.from({ length: 20 }, () => sent++));
        assertGreater(fault.count(proxy), CUTS - 1);
      });
      await eventually(async () => assertEquals(await sender.approximateCount(), 0));
      await sender.close();
      for (const { loop } of runs) await loop.shutdown();
      for (const { running } of runs) await running;
      assertEquals(seen.sort((a, b) => a - b), Array.from({ length: sent }, (_, i) => i));
      const sum = (count: "received" | "acknowledged" | "leftToExpire") =>
        runs.reduce((total, { loop }) => total + loop.counts[count], 0);
      assertEquals([sum("acknowledged"), sum("leftToExpire")], [sent, 0]);
    });
  }
});

/** Starts a server with a replica, and a proxy in front of the primary. */
async function startPair(): Promise<
  & {
    readonly old: PrivateServer;
    readonly toOld: Redis;
    readonly toNew: Redis;
    readonly at: string;
    /** Promotes the replica and points the proxy to it. */
    failOver(): Promise<void>;
  }
  & AsyncDisposable
> {
  const stack = new AsyncDisposableStack();
  const old = stack.use(await PrivateServer.start(redis));
  const replica = stack.use(await PrivateServer.start(redis));
  const toOld = stack.use(look(old.url)).redis;
  const toNew = stack.use(look(replica.url)).redis;
  const proxy = stack.use(await BreakingProxy.before(old.port));
  await toOld.config("SET", "repl-diskless-sync-delay", "0");
  await toNew.call("REPLICAOF", "127.0.0.1", `${old.port}`);
  await eventually(async () => {
    assert(/master_link_status:up/.test(await toNew.info("replication")));
  });
  return {
    old,
    toOld,
    toNew,
    at: `redis://127.0.0.1:${proxy.port}`,
    async failOver() {
      await toNew.call("REPLICAOF", "NO", "ONE");
      proxy.serverPort = replica.port;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("RedisMailbox after a failover", gate, () => {
  for (const way of ["is gone", "stays and is read-only"]) {
    it(`a mailbox continues on the replica after a failover: the old primary ${way}`, async () => {
      await using pair = await startPair();
      await using mailbox = await RedisMailbox.open<string>(pair.at, { log: silentLog });
      await mailbox.sendMany(["held", "ready"]);
      await mailbox.send("delayed", { delayMs: 200 });
      const [held] = await mailbox.receive({ visibilityTimeoutMs: 60_000 });
      await held!.saveCheckpoint("half");
      await eventually(async () => {
        assertEquals(await pair.toNew.exists("{lastcall:default}:progress"), 1);
      });
      await pair.failOver();
      if (way === "is gone") await pair.old.kill();
      else await pair.toOld.call("REPLICAOF", "127.0.0.1", "1");
      await eventually(() => held!.acknowledge());
      await eventually(() => mailbox.send("new"));
      const bodies: string[] = [];
      while (bodies.length < 3) {
        const [message] = await mailbox.receive({ waitTimeMs: 5_000 });
        bodies.push(message!.body);
        await message!.acknowledge();
      }
      assertEquals(bodies.sort(), ["delayed", "new", "ready"]);
      assertEquals(await mailbox.approximateCount(), 0);
    });
  }

  it("a failover to a replica that lagged behind is logged as lost messages", async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (text: string) => void errors.push(text) };
    await using pair = await startPair();
    await using mailbox = await RedisMailbox.open<string>(pair.at, { log });
    await mailbox.send("replicated");
    await eventually(async () => {
      assertEquals(await pair.toNew.exists("{lastcall:default}:messages"), 1);
    });
    await pair.toNew.call("REPLICAOF", "NO", "ONE");
    await mailbox.sendMany(["never", "replicated"]);
    await pair.failOver();
    await pair.old.kill();
    await eventually(() => mailbox.send("new"));
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), ["replicated", "new"]);
    assertEquals(errors.map((text) => /messages lost/.test(text)), [true], errors.join("\n"));
  });
});
