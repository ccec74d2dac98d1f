import { describe, it } from "node:test";
import { assertEquals, assertLess, assertNotEquals } from "@std/assert";
import { type NatsConnection, NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually } from "../_servers.ts";
import {
  cleanUp,
  connectTo,
  consumerOf,
  gate,
  look,
  openForTest,
  uniqueName,
  url,
} from "./_nats.ts";

/** Skips the timers of one to ten seconds, which wake a receiver without a message. */
const clock: Clock = {
  ...systemClock,
  schedule: (ms, task) => systemClock.schedule(ms < 1_000 || ms > 10_000 ? ms : Infinity, task),
};
const BY_MESSAGE = { pollIntervalMs: 600_000, clock };
const WAIT = { waitTimeMs: 20_000 };

/** Only a message can wake a receiver earlier, even on a busy machine. */
const SOON_MS = 10_000;

/** Waits until `count` requests wait for a message on the server. */
async function awaited(name: string, count: number): Promise<void> {
  await using behind = await look();
  await eventually(async () => {
    const info = await consumerOf(behind.jsm, name);
    assertEquals(info.num_waiting, count);
  });
}

async function soon<T>(act: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await act();
  assertLess(performance.now() - startedAt, SOON_MS);
  return result;
}

describe("a receiver that waits on NATS", gate, () => {
  it("a send, a release, a nack and a due message wake a receiver on NATS", async () => {
    await using it = await openForTest(url, BY_MESSAGE);
    const { mailbox, name } = it;
    await using other = await NatsMailbox.open<unknown>(url, { name, ...BY_MESSAGE });

    const sent = mailbox.receive(WAIT);
    await awaited(name, 1);
    const [first] = await soon(async () => {
      await other.send("sent");
      return await sent;
    });
    assertEquals(first?.body, "sent");
    await first!.acknowledge();

    await other.send("work");
    for (const settle of ["release", "nack"] as const) {
      const [held] = await other.receive();
      const waiting = mailbox.receive(WAIT);
      await awaited(name, 1);
      const [message] = await soon(async () => {
        await held![settle]();
        return await waiting;
      });
      assertEquals(message?.body, "work");
      await message!.release();
    }
    await mailbox.purge();

    const due = mailbox.receive(WAIT);
    await awaited(name, 1);
    const [late] = await soon(async () => {
      await other.send("late", { delayMs: 50 });
      return await due;
    });
    assertEquals([late?.body, late?.deliveryCount], ["late", 1]);
  });

  it("an expired lease of another process wakes a receiver on NATS", async () => {
    await using it = await openForTest(url, BY_MESSAGE);
    const { mailbox, name } = it;
    await using other = await NatsMailbox.open<unknown>(url, { name, ...BY_MESSAGE });
    await other.send("work");
    const [held] = await other.receive({ visibilityTimeoutMs: 100 });
    const [message] = await soon(() => mailbox.receive(WAIT));
    // The test ignores its delivery count: NATS 2.9 sometimes reports a second delivery as the first one.
    assertEquals(message?.body, "work");
    assertNotEquals(message?.receiptHandle, held?.receiptHandle);
  });

  it("each of twenty waiting receivers on NATS gets a message", async () => {
    await using it = await openForTest(url, BY_MESSAGE);
    await using other = await NatsMailbox.open<unknown>(url, { name: it.name });
    const waiting = Array.from({ length: 20 }, () => it.mailbox.receive(WAIT));
    for (let i = 0; i < 10; i++) await other.send(i);
    await other.sendMany([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    const bodies = (await Promise.all(waiting)).flat().map(({ body }) => Number(body));
    assertEquals(bodies.sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i));
  });

  it("a receiver on NATS finds a message when the server has lost its request", async () => {
    const name = uniqueName();
    const connection = await connectTo();
    const { promise: forgotten, resolve: forget } = deferred();
    const deaf: NatsConnection = {
      publish(subject, payload, options) {
        // These are the requests of the long poll.
        const text = String(payload);
        if (text.includes("expires") && !text.includes("no_wait")) return forget();
        connection.publish(subject, payload, options);
      },
      subscribe: (subject, options) => connection.subscribe(subject, options as never),
      status: () => connection.status(),
      isClosed: () => connection.isClosed(),
      close: () => connection.close(),
    };
    {
      await using mailbox = await NatsMailbox.open<string>(deaf, {
        name,
        pollIntervalMs: 20,
        log: silentLog,
      });
      await using other = await NatsMailbox.open<string>(url, { name });
      const waiting = mailbox.receive(WAIT);
      await forgotten;
      await other.send("work");
      assertEquals((await waiting)[0]?.body, "work");
    }
    await connection.close();
    await cleanUp(name);
  });

  it("two waiting receivers on NATS share one request, and a closed mailbox has none", async () => {
    const { mailbox, name } = await openForTest(url, BY_MESSAGE);
    const waiting = [mailbox.receive(WAIT), mailbox.receive(WAIT)];
    await awaited(name, 1);
    await mailbox.close();
    assertEquals(await Promise.all(waiting), [[], []]);
    await awaited(name, 0);
    await cleanUp(name);
  });
});
