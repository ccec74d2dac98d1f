import { after, describe, it } from "node:test";
import { assert, assertEquals, assertGreaterOrEqual, assertRejects } from "@std/assert";
import { PostgresMailbox, type PostgresMailboxOptions } from "../../../src/engines/postgres/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxLoop } from "../../../src/loops/mailbox_loop.ts";
import { MailboxConnectionError, ReceiptHandleExpiredError } from "../../../src/mailbox/errors.ts";
import type { Message } from "../../../src/mailbox/mailbox.ts";
import { privateOptions, PrivatePostgres } from "./_private.ts";
import { observer } from "./_shared.ts";

describe("PostgresMailbox when its server fails", privateOptions, () => {
  let starting: Promise<PrivatePostgres> | undefined;
  const start = () => starting ??= PrivatePostgres.start();
  after(async () => await (await starting)?.[Symbol.asyncDispose]());

  const open = (server: PrivatePostgres, options: PostgresMailboxOptions) =>
    PostgresMailbox.open<number>(server.url, { log: silentLog, ...options });

  /** Works all of it off and tells what was worked on, while `fault` does what it does. */
  async function workOff(
    mailbox: PostgresMailbox<number>,
    count: number,
    fault: () => Promise<void>,
  ): Promise<readonly number[]> {
    const done = new Set<number>();
    let finish = () => {};
    const finished = new Promise<void>((resolve) => finish = resolve);
    let half = () => {};
    const halfDone = new Promise<void>((resolve) => half = resolve);
    const loop = new MailboxLoop<number>({
      mailbox,
      concurrency: 10,
      log: silentLog,
      handler: async ({ body }) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        done.add(body);
        if (done.size === Math.floor(count / 2)) half();
        if (done.size === count) finish();
      },
    });
    const running = loop.run({ visibilityTimeoutMs: 2_000, waitTimeMs: 1_000 });
    await halfDone;
    await fault();
    await finished;
    await loop.shutdown();
    await running;
    return [...done].sort((a, b) => a - b);
  }

  it("a mailbox continues after the server has ended its connections", async () => {
    const server = await start();
    const sql = observer(server.url);
    const mailbox = await open(server, { name: "ended" });
    const bodies = Array.from({ length: 300 }, (_, i) => i);
    await mailbox.sendMany(bodies);
    const done = await workOff(mailbox, bodies.length, async () => {
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'lastcall'`;
    });
    assertEquals(done, bodies);
    await mailbox.close();
    await sql.end();
  });

  it("a loop handles and counts each message once, however often its connections end", async () => {
    const server = await start();
    const sql = observer(server.url);
    await using mailbox = await open(server, { name: "ended.often" });
    const bodies = Array.from({ length: 400 }, (_, i) => i);
    await mailbox.sendMany(bodies);
    const done: number[] = [];
    let finish = () => {};
    const finished = new Promise<void>((resolve) => finish = resolve);
    let ended = 0;
    const loop = new MailboxLoop<number>({
      mailbox,
      concurrency: 20,
      log: silentLog,
      handler: async ({ body }) => {
        // Those that were ended just before are made again.
        for (let count = 0; body % 40 === 0 && count === 0; ended += count) {
          ({ count } = await sql`select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = 'lastcall'`);
        }
        done.push(body);
        if (done.length === bodies.length) finish();
      },
    });
    const running = loop.run({ visibilityTimeoutMs: 60_000, waitTimeMs: 1_000 });
    await finished;
    await loop.shutdown();
    await running;
    await sql.end();
    assertGreaterOrEqual(ended, 10);
    assertEquals(done.sort((a, b) => a - b), bodies);
    assertEquals(loop.counts, {
      ...{ received: bodies.length, acknowledged: bodies.length },
      ...{ released: 0, nacked: 0, deadLettered: 0, cancelled: 0, leftToExpire: 0 },
    });
  });

  it("a loop is not ready while its table is locked, then continues with nothing lost or repeated", async () => {
    const server = await start();
    const sql = observer(server.url);
    const options = { name: "locked", schema: "locked" };
    await using sender = await open(server, options);
    const bodies = Array.from({ length: 100 }, (_, i) => i);
    await sender.sendMany(bodies);
    // It is locked for more than twice as long as a call may take, as by 13 s by default.
    await using mailbox = await open(server, { ...options, callTimeoutMs: 1_000 });
    const done: number[] = [];
    let wake = () => {};
    const until = async (condition: () => boolean) => {
      while (!condition()) await new Promise<void>((resolve) => wake = resolve);
    };
    const loop = new MailboxLoop<number>({
      mailbox,
      concurrency: 5,
      log: silentLog,
      handler: async ({ body }) => {
        await new Promise((resolve) => setTimeout(resolve, 2));
        done.push(body);
        wake();
      },
    });
    const running = loop.run({ visibilityTimeoutMs: 60_000, waitTimeMs: 1_000 });
    await until(() => done.length >= 30);
    const ready: boolean[] = [];
    await sql.begin(async (transaction) => {
      await transaction`lock table locked.messages in access exclusive mode`;
      await assertRejects(() => mailbox.send(-1), MailboxConnectionError);
      for (const endsAt = performance.now() + 1_200; performance.now() < endsAt;) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        ready.push(loop.ready);
      }
    });
    await until(() => done.length >= bodies.length);
    while (!loop.ready) await new Promise((resolve) => setTimeout(resolve, 10));
    await loop.shutdown();
    await running;
    await sql.end();
    assert(ready.includes(false), "not ready while the table is locked");
    assertEquals(done.sort((a, b) => a - b), bodies);
    assertEquals(loop.counts, {
      ...{ received: bodies.length, acknowledged: bodies.length },
      ...{ released: 0, nacked: 0, deadLettered: 0, cancelled: 0, leftToExpire: 0 },
    });
    assertEquals(await sender.approximateCount(), 0);
  });

  it("a mailbox continues after a restart of the server", async () => {
    const server = await start();
    const mailbox = await open(server, { name: "restarted" });
    const bodies = Array.from({ length: 300 }, (_, i) => i);
    await mailbox.sendMany(bodies);
    const done = await workOff(mailbox, bodies.length, async () => {
      await server.stop();
      await assertRejects(() => mailbox.send(-1), MailboxConnectionError);
      await server.start();
    });
    assertEquals(done, bodies);
    await mailbox.close();
  });

  it("a receiver gets notifications again after a restart of the server", async () => {
    const server = await start();
    const options = { name: "heard", pollIntervalMs: 3_600_000 };
    const mailbox = await open(server, options);
    const sql = observer(server.url);
    const listener = async () => {
      for (;;) {
        const [row] = await sql`select pid from pg_stat_activity
          where query ilike 'listen%' and state = 'idle'`;
        if (row !== undefined) return row.pid;
      }
    };
    const received = mailbox.receive({ waitTimeMs: 3_600_000 });
    const pid = await listener();
    await sql`select pg_terminate_backend(${pid}::int)`;
    while (await listener() === pid);
    const other = await PostgresMailbox.open<number>(sql, { name: "heard" });
    await other.send(1);
    assertEquals((await received)[0]?.body, 1);
    await mailbox.close();
    await other.close();
    await sql.end();
  });

  it("calls to a frozen server fail in time, and no message stays hidden", async () => {
    const server = await start();
    const mailbox = await open(server, { name: "frozen", callTimeoutMs: 2_000 });
    await mailbox.sendMany([1, 2, 3]);
    const [held] = await mailbox.receive();
    server.freeze();
    const from = performance.now();
    await Promise.all([
      assertRejects(() => mailbox.send(4), MailboxConnectionError, "did not send within 2000 ms"),
      assertRejects(() => mailbox.receive({ maxMessages: 2 }), MailboxConnectionError),
      assertRejects(() => mailbox.approximateCount(), MailboxConnectionError),
      assertRejects(() => held!.extendVisibility(60_000), MailboxConnectionError),
    ]);
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => held!.release(), MailboxConnectionError);
    const tookMs = performance.now() - from;
    assert(tookMs < 20_000, `three calls of 2 s each took ${tookMs} ms`);
    server.thaw();
    await acknowledge(held!);
    // Whether the 4 was stored is not known, as always when an answer is missing.
    const seen = new Set<number>();
    while (!(seen.has(2) && seen.has(3))) {
      for (const message of await eventually(() => mailbox.receive({ waitTimeMs: 1_000 }))) {
        assertEquals(message.deliveryCount, 1);
        seen.add(message.body);
        await acknowledge(message);
      }
    }
    const left = await eventually(() => mailbox.peek(10));
    assertEquals(left.filter(({ body }) => body !== 4), []);
    await mailbox.close();
  });

  it("close ends in time while the server is frozen", async () => {
    const server = await start();
    const mailbox = await open(server, { name: "closing", callTimeoutMs: 2_000 });
    const received = mailbox.receive({ waitTimeMs: 60_000 }).catch(() => []);
    server.freeze();
    const from = performance.now();
    await mailbox.close();
    await received;
    const tookMs = performance.now() - from;
    server.thaw();
    assert(tookMs < 10_000, `closing took ${tookMs} ms`);
  });
});

/** The first calls after an outage may still meet a connection that the outage has ended. */
async function eventually<T>(act: () => Promise<T>): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof MailboxConnectionError) || attempt === 20) throw error;
    }
  }
}

/** A busy machine may answer later than the call waits: then the message may be acknowledged already. */
async function acknowledge(message: Message<number>): Promise<void> {
  let late = false;
  await eventually(async () => {
    try {
      await message.acknowledge();
    } catch (error) {
      if (late && error instanceof ReceiptHandleExpiredError) return;
      late = true;
      throw error;
    }
  });
}
