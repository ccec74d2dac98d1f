import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Redis } from "ioredis";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxConnectionError } from "../../../mod.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { look } from "./_redis.ts";

const gate = { skip: hasBinary(redis) ? false : missing(redis) };

/** Starts a server that the test may kill or freeze, with a mailbox on it. */
async function startSite(
  callTimeoutMs = 5_000,
): Promise<
  & {
    readonly server: PrivateServer;
    readonly mailbox: RedisMailbox<unknown>;
    readonly admin: Redis;
    open(): Promise<RedisMailbox<unknown>>;
  }
  & AsyncDisposable
> {
  const server = await PrivateServer.start(redis);
  const opened: RedisMailbox<unknown>[] = [];
  const open = async () => {
    // No poll: only what the test does can wake a receive.
    const options = { name: "orders", callTimeoutMs, pollIntervalMs: 600_000, log: silentLog };
    const mailbox = await RedisMailbox.open<unknown>(server.url, options);
    opened.push(mailbox);
    return mailbox;
  };
  const mailbox = await open();
  const behind = look(server.url);
  return {
    server,
    mailbox,
    admin: behind.redis,
    open,
    async [Symbol.asyncDispose]() {
      for (const mailbox of opened) await mailbox.close();
      await behind[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

const takeOne = async (mailbox: RedisMailbox<unknown>) => {
  const [message] = await mailbox.receive({ visibilityTimeoutMs: 600_000 });
  assert(message !== undefined, "a message is available");
  return message;
};

/** Repeats a receive that fails during the outage, as a loop does. */
const receiveLikeALoop = (mailbox: RedisMailbox<unknown>) =>
  eventually(() => mailbox.receive({ waitTimeMs: 60_000 }));

describe("RedisMailbox during outages", gate, () => {
  it("scripts that the server has flushed are sent again", async () => {
    await using site = await startSite();
    const { mailbox, admin } = site;
    for (const body of ["first", "second"]) {
      await admin.script("FLUSH");
      await mailbox.send(body);
      await admin.script("FLUSH");
      const message = await takeOne(mailbox);
      assertEquals(message.body, body);
      await admin.script("FLUSH");
      await message.acknowledge();
    }
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("calls fail while the server is down and work after its restart", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    await mailbox.sendMany(["a", "b"]);
    const held = await takeOne(mailbox);
    await server.kill();
    await assertRejects(() => mailbox.send("c"), MailboxConnectionError);
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => held.acknowledge(), MailboxConnectionError);
    await server.start();
    await eventually(() => held.acknowledge());
    assertEquals((await takeOne(mailbox)).body, "b");
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("a waiting receive continues after a restart of the server", async () => {
    await using site = await startSite();
    const { server, mailbox, admin } = site;
    const waiting = receiveLikeALoop(mailbox);
    await listening(admin, 1);
    await server.kill();
    await server.start();
    await listening(admin, 1);
    const other = await site.open();
    await other.send("work");
    assertEquals((await waiting).map(({ body }) => body), ["work"]);
  });

  it("a waiting receive fails when the server is killed", async () => {
    await using site = await startSite();
    const { server, mailbox, admin } = site;
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    const failing = assertRejects(() => waiting, MailboxConnectionError);
    await listening(admin, 1);
    await server.kill();
    await failing;
    await server.start();
  });

  it("a waiting receive gets messages after its connections were dropped", async () => {
    await using site = await startSite();
    const { mailbox, admin } = site;
    const waiting = receiveLikeALoop(mailbox);
    await listening(admin, 1);
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const other = await site.open();
    await other.send("work");
    assertEquals((await waiting).map(({ body }) => body), ["work"]);
    await eventually(() => mailbox.send("more"));
    assertEquals((await takeOne(mailbox)).body, "more");
  });

  it("calls to a frozen server time out and have no effect later", async () => {
    await using site = await startSite(2_000);
    const { server, mailbox } = site;
    await mailbox.send("before");
    server.freeze();
    await Promise.all([
      assertRejects(() => mailbox.send("never"), MailboxConnectionError, "2000 ms"),
      assertRejects(
        () => mailbox.receive({ visibilityTimeoutMs: 600_000 }),
        MailboxConnectionError,
        "2000 ms",
      ),
    ]);
    server.thaw();
    await eventually(() => mailbox.send("after"));
    const bodies = [];
    for (let i = 0; i < 2; i++) {
      const message = await takeOne(mailbox);
      assertEquals(message.deliveryCount, 1, "the failed receive counts no attempt");
      bodies.push(message.body);
    }
    assertEquals(bodies, ["before", "after"]);
    assertEquals(await mailbox.approximateCount(), 2);
  });

  it("closing a mailbox does not wait for a frozen server", async () => {
    await using site = await startSite(600_000);
    const { server, mailbox } = site;
    server.freeze();
    const receiving = mailbox.receive({ waitTimeMs: 600_000 });
    const sending = assertRejects(() => mailbox.send("never"), MailboxConnectionError);
    await mailbox.close();
    assertEquals(await receiving, []);
    await sending;
    server.thaw();
  });

  it("messages of a receive whose answer was lost are released by the next receive or close", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    const client = behind.redis;
    let losing = false;
    const lossy = {
      async evalsha(...args: Parameters<typeof client.evalsha>) {
        const answer = await client.evalsha(...args);
        if (losing) throw new Error("Connection is closed.");
        return answer;
      },
      eval: (...args: Parameters<typeof client.eval>) => client.eval(...args),
      duplicate: () => client.duplicate(),
    };
    {
      await using mailbox = await RedisMailbox.open<unknown>(lossy as never, { name: "orders" });
      await mailbox.sendMany(["a", "b", "c"]);
      const held = await takeOne(mailbox);
      losing = true;
      const options = { maxMessages: 10, visibilityTimeoutMs: 600_000 };
      await assertRejects(() => mailbox.receive(options), MailboxConnectionError);
      losing = false;
      const messages = await mailbox.receive(options);
      const seen = messages.map(({ body, deliveryCount }) => [body, deliveryCount]);
      assertEquals(seen, [["b", 1], ["c", 1]]);
      await held.acknowledge();
      await mailbox.releaseMany!(messages);
      losing = true;
      await assertRejects(() => mailbox.receive(options), MailboxConnectionError);
      losing = false;
    }
    await using later = await RedisMailbox.open<unknown>(client, { name: "orders" });
    assertEquals(
      (await later.receive({ maxMessages: 10 })).length,
      2,
      "the close has released them",
    );
  });
});

/** Waits until so many connections listen for messages. */
async function listening(admin: Redis, count: number): Promise<void> {
  await eventually(async () => {
    const [, found] = await admin.pubsub("NUMSUB", "{lastcall:orders}:wake") as [string, number];
    assertEquals(found, count);
  });
}
