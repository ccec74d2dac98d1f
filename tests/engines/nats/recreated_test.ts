// Streams and consumers that are deleted, or lost by the server, while messages are in flight.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals, assertFalse, assertLess, assertRejects } from "@std/assert";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import type { Log } from "../../../src/log.ts";
import { LoopGroup, MailboxLoop, ReceiptHandleExpiredError, silentLog } from "../../../mod.ts";
import { eventually, hasBinary, missing, nats, type PrivateServer } from "../_servers.ts";
import { look, startServer } from "./_nats.ts";

const gate = { skip: hasBinary(nats) ? false : missing(nats) };
const MANY = 40;
const numbers = (from: number) => Array.from({ length: MANY }, (_, i) => from + i);

/** The longest interval, so that only the fault itself is noticed. */
const options = { name: "orders", pollIntervalMs: 600_000, log: silentLog };
const open = (server: PrivateServer, log: Log = silentLog) =>
  NatsMailbox.open<number>(server.url, { ...options, log });

/** Returns a log that keeps its lines. */
function keepingLog(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (text: string, fields?: object) => {
    const shown = Object.entries(fields ?? {}).map(([name, value]) => `${name}=${value}`);
    lines.push([text, ...shown].join(" "));
  };
  return { log: { debug: () => {}, info: keep, warn: keep, error: keep }, lines };
}

async function deleteStreams(server: PrivateServer, ...names: string[]): Promise<void> {
  await using behind = await look(server.url);
  for (const name of names) await behind.jsm.streams.delete(name);
}

async function deleteConsumers(server: PrivateServer): Promise<void> {
  await using behind = await look(server.url);
  for await (const { name } of behind.jsm.consumers.list("lastcall_orders")) {
    await behind.jsm.consumers.delete("lastcall_orders", name);
  }
}

/** Kills the server and starts it with an empty store. */
async function comeBackEmpty(server: PrivateServer): Promise<void> {
  await server.kill();
  await rm(join(server.folder, "jetstream"), { recursive: true, force: true });
  await server.start();
}

const faults: readonly {
  readonly name: string;
  readonly happen: (server: PrivateServer) => Promise<void>;
}[] = [
  {
    name: "its stream is deleted",
    happen: (server) => deleteStreams(server, "lastcall_orders", "lastcall-notes_orders"),
  },
  { name: "the server comes back with an empty store", happen: comeBackEmpty },
];

describe("NATS messages in flight", gate, () => {
  for (const { name, happen } of faults) {
    it(`late acknowledgements on NATS remove no newer message when ${name}`, async () => {
      await using server = await startServer();
      await using mailbox = await open(server);
      await using sender = await open(server);
      await sender.sendMany(numbers(0));
      const fault = deferred();
      const begun = deferred();
      const started = new Set<number>();
      const handled = new Set<number>();
      const loop = new MailboxLoop<number>({
        mailbox,
        concurrency: MANY,
        prefetch: 0,
        log: silentLog,
        handler: async ({ body }) => {
          if (started.add(body).size === MANY) begun.resolve();
          if (body < MANY) await fault.promise;
          handled.add(body);
        },
      });
      const group = new LoopGroup([loop], { log: silentLog, shutdownTimeoutMs: 5_000 });
      const run = group.run({ installSignals: false });
      await begun.promise;
      await happen(server);
      await eventually(() => sender.sendMany(numbers(MANY)));
      fault.resolve();
      await eventually(async () => {
        const inFlight = group.health().loops[0]?.inFlight;
        assertEquals([await sender.approximateCount(), inFlight], [0, 0]);
      });
      await group.shutdown();
      const { counts, balanced } = await run;
      const lost = numbers(MANY).filter((body) => !handled.has(body));
      assertEquals(lost, [], "every newer message is handled");
      assertEquals([counts.acknowledged, counts.leftToExpire], [MANY, MANY]);
      assert(balanced);
    });
  }

  it("late settlements on NATS change no newer message when the stream was deleted", async () => {
    await using server = await startServer();
    await using mailbox = await open(server);
    await using other = await open(server);
    await mailbox.sendMany([0, 1, 2, 3, 4, 5]);
    const late = await mailbox.receive({ maxMessages: 6 });
    await faults[0]!.happen(server);
    await eventually(() => other.sendMany([10, 11, 12, 13, 14, 15]));
    const first = await other.receive({ maxMessages: 6 });
    for (const message of first) await message.saveCheckpoint(`new ${message.body}`);
    const settlements = [
      () => late[0]!.saveCheckpoint("old"),
      () => late[0]!.extendVisibility(1),
      () => late[0]!.acknowledge(),
      () => late[1]!.nack(),
      () => late[2]!.nack({ delayMs: 60_000, countsAttempt: false }),
      () => late[3]!.release(),
      () => late[4]!.deadLetter({ reason: "late" }),
      () => late[5]!.acknowledge(),
    ];
    for (const settle of settlements) await assertRejects(settle, ReceiptHandleExpiredError);
    assertEquals(await other.approximateCount(), 6);
    assertEquals(await other.deadLetters.approximateCount(), 0);
    assertEquals(await mailbox.receive({ maxMessages: 6 }), [], "the newer messages stay hidden");
    await other.releaseMany!(first);
    const again = await other.receive({ maxMessages: 6 });
    assertEquals(
      again.map(({ body, deliveryCount, checkpoint }) => [body, deliveryCount, checkpoint]).sort(),
      [10, 11, 12, 13, 14, 15].map((body) => [body, 1, `new ${body}`]),
    );
  });
});

describe("a NATS mailbox whose consumer was deleted", gate, () => {
  it("a mailbox creates its deleted NATS consumer again while a receiver waits, and logs it", async () => {
    await using server = await startServer();
    const { log, lines } = keepingLog();
    await using mailbox = await open(server, log);
    await using sender = await open(server);
    const received = mailbox.receive({ waitTimeMs: 30_000 });
    await deleteConsumers(server);
    await sender.send(1);
    const from = performance.now();
    const [message] = await received;
    assertLess(performance.now() - from, 4_000);
    assertEquals([message?.body, message?.deliveryCount], [1, 1]);
    await message!.acknowledge();
    assertEquals(await sender.approximateCount(), 0);
    assert(
      lines.some((line) =>
        /missing part.*mailbox=orders part=consumer messagesLost=false/.test(line)
      ),
      `${lines}`,
    );
    assertFalse(/overloaded|frozen/.test(`${lines}`), `${lines}`);
  });

  it("a loop handles all messages and stays ready after its NATS consumer was deleted", async () => {
    await using server = await startServer();
    const { log, lines } = keepingLog();
    await using mailbox = await open(server, log);
    await using sender = await open(server);
    const handled = new Set<number>();
    const halfway = deferred();
    const done = deferred();
    const loop = new MailboxLoop<number>({
      mailbox,
      concurrency: 4,
      log,
      handler: async ({ body }) => {
        if (handled.size >= MANY / 2) halfway.resolve();
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (handled.add(body).size === 2 * MANY) done.resolve();
      },
    });
    const group = new LoopGroup([loop], { log: silentLog });
    const run = group.run({ installSignals: false });
    await sender.sendMany(numbers(0));
    await halfway.promise;
    await deleteConsumers(server);
    await sender.sendMany(numbers(MANY));
    await done.promise;
    await eventually(async () => assertEquals(await sender.approximateCount(), 0));
    assert(group.health().loops.every(({ ready }) => ready));
    await group.shutdown();
    assert((await run).balanced);
    assertFalse(/overloaded|frozen/.test(`${lines}`), `${lines}`);
  });
});

describe("a NATS mailbox whose stream of notes was deleted", gate, () => {
  it("a mailbox creates its deleted NATS stream of notes again for every call that needs it", async () => {
    await using server = await startServer();
    await using mailbox = await open(server);
    const lose = () => deleteStreams(server, "lastcall-notes_orders");
    await mailbox.send(1);
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    await lose();
    await message!.saveCheckpoint("half");
    await lose();
    await message!.release();
    await lose();
    const [again] = await mailbox.receive({ waitTimeMs: 10_000 });
    assertEquals([again?.body, again?.checkpoint], [1, undefined]);
    await again!.acknowledge();
    await lose();
    await mailbox.send(2, { delayMs: 50 });
    const [delayed] = await mailbox.receive({ waitTimeMs: 20_000 });
    assertEquals([delayed?.body, delayed?.deliveryCount], [2, 1]);
  });
});
