import { describe, it } from "node:test";
import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxConnectionError } from "../../../mod.ts";
import { eventually, hasBinary, missing, nats, type PrivateServer } from "../_servers.ts";
import { connectTo, consumerOf, look, openEngine, startServer } from "./_nats.ts";

const gate = { skip: hasBinary(nats) ? false : missing(nats) };

/** Starts a server that the test may kill or freeze, and opens a mailbox on it. */
async function startSite(
  callTimeoutMs = 5_000,
): Promise<
  & {
    readonly server: PrivateServer;
    readonly mailbox: NatsMailbox<unknown>;
    open(): Promise<NatsMailbox<unknown>>;
  }
  & AsyncDisposable
> {
  const server = await startServer();
  const opened: NatsMailbox<unknown>[] = [];
  const open = async () => {
    // The longest interval, so that only the event of the test wakes a receiver.
    const options = { name: "orders", callTimeoutMs, pollIntervalMs: 600_000, log: silentLog };
    const mailbox = await NatsMailbox.open<unknown>(server.url, options);
    opened.push(mailbox);
    return mailbox;
  };
  return {
    server,
    mailbox: await open(),
    open,
    async [Symbol.asyncDispose]() {
      for (const mailbox of opened) await mailbox.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const takeOne = async (mailbox: NatsMailbox<unknown>) => {
  const [message] = await mailbox.receive({ visibilityTimeoutMs: 600_000 });
  assert(message !== undefined, "a message is visible");
  return message;
};

/** Repeats a receive that fails, as a loop does. */
const receiveLikeALoop = (mailbox: NatsMailbox<unknown>) =>
  eventually(() => mailbox.receive({ waitTimeMs: 60_000 }));

/** Waits until a request waits for a message on the server. */
async function awaited(server: PrivateServer): Promise<void> {
  await using behind = await look(server.url);
  await eventually(async () => {
    const { num_waiting } = await consumerOf(behind.jsm, "orders");
    assertEquals(num_waiting, 1);
  });
}

/** Resolves when the server does not answer any more: a signal takes time. */
async function freeze(server: PrivateServer): Promise<void> {
  server.freeze();
  while (await nats.answers!(server.port));
}

describe("an outage of NATS", gate, () => {
  it("calls fail while NATS is down, and its messages are still there after a restart", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    await mailbox.sendMany(["a", "b"]);
    const held = await takeOne(mailbox);
    await server.kill();
    const killedAt = performance.now();
    await assertRejects(() => mailbox.send("c"), MailboxConnectionError);
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => held.acknowledge(), MailboxConnectionError);
    assertLess(performance.now() - killedAt, 4_000, "calls fail without waiting");
    await server.start();
    await eventually(() => held.acknowledge());
    assertEquals((await takeOne(mailbox)).body, "b");
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("a waiting receiver continues to wait after NATS was killed and restarted", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    const waiting = receiveLikeALoop(mailbox);
    await awaited(server);
    await server.kill();
    await server.start();
    const startedAt = performance.now();
    await awaited(server);
    assertLess(performance.now() - startedAt, 5_000, "it asks again when the server is back");
    const other = await site.open();
    await other.send("work");
    assertEquals((await waiting).map(({ body }) => body), ["work"]);
  });

  it("calls to a frozen NATS server time out, and failed calls have no effect", async () => {
    await using site = await startSite(2_000);
    const { server, mailbox } = site;
    await mailbox.send("before");
    await freeze(server);
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
    await eventually(async () => assertEquals(await mailbox.approximateCount(), 2));
    const seen = await eventually(async () => {
      const messages = await mailbox.receive({ maxMessages: 10 });
      if (messages.length < 2) await mailbox.releaseMany!(messages);
      assertEquals(messages.length, 2);
      return messages.map(({ body }) => body);
    });
    assertEquals(seen.sort(), ["after", "before"]);
  });

  it("a message that a frozen NATS server delivers late has spent no attempt", async () => {
    await using site = await startSite(2_000);
    const { server, mailbox } = site;
    await mailbox.send("work");
    await freeze(server);
    const options = { visibilityTimeoutMs: 600_000, waitTimeMs: 60_000 };
    await assertRejects(() => mailbox.receive(options), MailboxConnectionError, "2000 ms");
    server.thaw();
    const [message] = await eventually(() => mailbox.receive(options));
    assertEquals([message?.body, message?.deliveryCount], ["work", 1]);
  });

  it("closing a mailbox does not wait for a frozen NATS server", async () => {
    await using site = await startSite(600_000);
    const { server, mailbox } = site;
    const receiving = mailbox.receive({ waitTimeMs: 600_000 });
    await awaited(server);
    await freeze(server);
    const sending = assertRejects(() => mailbox.send("never"), MailboxConnectionError);
    const startedAt = performance.now();
    await mailbox.close();
    assertLess(performance.now() - startedAt, 4_000);
    assertEquals(await receiving, []);
    await sending;
    server.thaw();
  });

  it("a mailbox creates its NATS streams again after they were deleted", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    await mailbox.send("lost");
    await using behind = await look(server.url);
    await behind.jsm.streams.delete("lastcall_orders");
    await behind.jsm.streams.delete("lastcall-notes_orders");
    await eventually(() => mailbox.send("work"));
    const message = await takeOne(mailbox);
    assertEquals([message.body, await mailbox.approximateCount()], ["work", 1]);
  });
});

describe("a receiver of NATS that stops waiting", gate, () => {
  it("a closing NATS engine releases its buffered message without spending an attempt", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    const leaving = await openEngine(server.url, "orders");
    const caught = new Promise<void>((resolve) => leaving.onWake(resolve));
    assertEquals((await leaving.receive(1, 1_000)).deliveries, []);
    await mailbox.send("work");
    await caught; // and no receive takes it
    assertEquals(await mailbox.receive(), [], "it is buffered for the waiting receiver");
    await leaving.close();
    const [message] = await mailbox.receive();
    assertEquals([message?.body, message?.deliveryCount], ["work", 1]);
  });

  it("a closed NATS engine leaves no request on the server", async () => {
    await using site = await startSite();
    const { server, mailbox } = site;
    const connection = await connectTo(server.url);
    const leaving = await openEngine(connection, "orders");
    const stop = leaving.onWake(() => {});
    assertEquals((await leaving.receive(1, 1_000)).deliveries, []);
    stop();
    await leaving.close(); // the connection stays open
    await using behind = await look(server.url);
    const info = await consumerOf(behind.jsm, "orders");
    assertEquals(info.num_waiting, 0);
    await mailbox.send("work");
    assertEquals((await takeOne(mailbox)).deliveryCount, 1);
    await connection.close();
  });
});
