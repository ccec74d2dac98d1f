import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { headers } from "@nats-io/transport-node";
import { type NatsConnection, NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { cleanUp, connectTo, gate, uniqueName } from "./_nats.ts";

/** Opens a mailbox whose next requests expire, as on a server that is busy. Counts the expired ones. */
async function openLate(
  requests: number,
): Promise<
  & {
    readonly mailbox: NatsMailbox<unknown>;
    readonly expired: () => number;
  }
  & AsyncDisposable
> {
  const connection = await connectTo();
  const name = uniqueName();
  let expired = 0;
  const line: NatsConnection = {
    publish(subject, payload, options) {
      const { reply } = options ?? {};
      const isRequest = subject.startsWith("$JS.API.CONSUMER.MSG.NEXT.") && reply !== undefined;
      if (!isRequest || expired === requests) return connection.publish(subject, payload, options);
      expired++;
      connection.publish(reply, "", { headers: headers(408, "Request Timeout") });
    },
    subscribe: (subject, options) => connection.subscribe(subject, options as never),
    status: () => connection.status(),
    isClosed: () => connection.isClosed(),
    close: () => connection.close(),
  };
  const mailbox = await NatsMailbox.open<unknown>(line, { name, log: silentLog });
  return {
    mailbox,
    expired: () => expired,
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      await connection.close();
      await cleanUp(name);
    },
  };
}

describe("a NATS server that delivers late", gate, () => {
  it("a receive asks again while the NATS server has messages that it does not deliver", async () => {
    const requests = 4;
    await using site = await openLate(requests);
    await site.mailbox.sendMany([0, 1, 2]);
    const received = await site.mailbox.receive({ maxMessages: 10 });
    assertEquals(received.map(({ body }) => body), [0, 1, 2]);
    assertEquals(site.expired(), requests);
  });

  it("a receive returns when the NATS server delivers no message for long", async () => {
    await using site = await openLate(Infinity);
    await site.mailbox.send("work");
    assertEquals(await site.mailbox.receive(), []);
    assertGreater(site.expired(), 1);
  });

  it("a receive from an empty NATS queue sends one request", async () => {
    await using site = await openLate(1);
    assertEquals(await site.mailbox.receive(), []);
    assertEquals(site.expired(), 1);
    await site.mailbox.send("work");
    assertEquals((await site.mailbox.receive()).length, 1);
  });
});
