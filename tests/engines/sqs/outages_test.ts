import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { SqsMailbox } from "../../../src/engines/sqs/mod.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { noServer, SqsServer } from "./_server.ts";
import { eventually } from "../_servers.ts";
import { openForTest } from "./_sqs.ts";

const gate = { skip: noServer };

const receiveOne = async (mailbox: SqsMailbox<unknown>) => {
  const [message] = await mailbox.receive({ visibilityTimeoutMs: 600_000 });
  assert(message !== undefined, "a message is visible");
  return message;
};

describe("an SqsMailbox", gate, () => {
  it("reports that the service is not reachable when it opens", async () => {
    const server = await SqsServer.start();
    const at = server.endpoint;
    await server.kill();
    const error = await assertRejects(() => openForTest({ at }), MailboxConnectionError);
    assert(/reachable/.test(error.message), error.message);
  });

  it("calls fail while the service is away, and succeed when it is back", async () => {
    await using server = await SqsServer.start({ durable: true });
    await using it = await openForTest({ at: server.endpoint });
    const { mailbox } = it;
    await mailbox.sendMany(["a", "b"]);
    const held = await receiveOne(mailbox);
    await server.kill();
    await assertRejects(() => mailbox.send("c"), MailboxConnectionError);
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => held.acknowledge(), MailboxConnectionError);
    await assertRejects(() => held.extendVisibility(3_600_000), MailboxConnectionError);
    await server.start();
    await held.acknowledge();
    assertEquals((await receiveOne(mailbox)).body, held.body === "a" ? "b" : "a");
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("a waiting receive fails when the service goes away, and the next one receives", async () => {
    await using server = await SqsServer.start({ durable: true });
    await using it = await openForTest({ at: server.endpoint });
    const { mailbox } = it;
    // Repeats a failed receive, as a loop does.
    let failures = 0;
    const waiting = eventually(() =>
      mailbox.receive({ waitTimeMs: 60_000 }).catch((error) => {
        failures++;
        assert(error instanceof MailboxConnectionError, String(error));
        throw error;
      })
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    await server.kill();
    await eventually(() => Promise.resolve(assert(failures > 0)));
    await server.start();
    await mailbox.send("work");
    assertEquals((await waiting)[0]?.body, "work");
  });

  it("calls fail at their timeout while the service is frozen, and succeed later", async () => {
    await using server = await SqsServer.start();
    await using it = await openForTest({ at: server.endpoint, callTimeoutMs: 2_000 });
    const { mailbox } = it;
    await mailbox.send("before");
    const held = await receiveOne(mailbox);
    server.freeze();
    await Promise.all([
      assertRejects(() => mailbox.send("never"), MailboxConnectionError, "2000 ms"),
      assertRejects(() => mailbox.receive(), MailboxConnectionError, "2000 ms"),
      assertRejects(() => held.acknowledge(), MailboxConnectionError, "2000 ms"),
    ]);
    server.thaw();
    await eventually(() => held.acknowledge());
    await eventually(() => mailbox.send("after"));
    await eventually(async () => assertEquals((await receiveOne(mailbox)).body, "after"));
  });

  it("a close does not wait for a frozen service", async () => {
    await using server = await SqsServer.start();
    await using it = await openForTest({ at: server.endpoint, callTimeoutMs: 600_000 });
    const waiting = it.mailbox.receive({ waitTimeMs: 600_000 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    server.freeze();
    const sending = it.mailbox.send("never").catch(() => {});
    await it.mailbox.close();
    assertEquals(await waiting, []);
    server.thaw();
    await sending;
  });
});
