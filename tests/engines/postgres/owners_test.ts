import { after, describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { systemClock } from "../../../src/clock.ts";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { PostgresEngine } from "../../../src/engines/postgres/postgres_engine.ts";
import { openPostgresLink } from "../../../src/engines/postgres/postgres_link.ts";
import { openExtender } from "../../../src/engines/postgres/postgres_mailbox.ts";
import { silentLog } from "../../../src/log.ts";
import { systemRandom } from "../../../src/random.ts";
import { eventually } from "../_servers.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";
import { type Holder, holder, Watcher } from "./_watchers.ts";

/** So many looks take longer than the grace. */
const LOOKS = 5;

const DIED = "worker died; its messages are delivered again";

/** A schema of its own for each test: every process of a schema looks for all its owners. */
class Site {
  readonly schema = ownSchema();

  open(name: string, target: string | SqlClient = url!): Promise<PostgresMailbox<string>> {
    return PostgresMailbox.open<string>(target, { schema: this.schema, name });
  }

  watch(name: string): Promise<Watcher> {
    return Watcher.open(url!, this.schema, name);
  }

  hold(...queues: string[]): Promise<Holder> {
    return holder(url!, this.schema, ...queues);
  }

  async owners(): Promise<Owner[]> {
    const rows = await sql`select number, pid from ${sql(this.schema)}.owners order by number`;
    return rows.map(({ number, pid }) => ({ number: String(number), pid: Number(pid) }));
  }

  /** The owner of the only message in flight. */
  async owner(): Promise<Owner> {
    const [row] = await sql`select (receipt >> 32)::text as number
      from ${sql(this.schema)}.messages where receipt is not null`;
    return (await this.owners()).find(({ number }) => number === row!.number)!;
  }

  /** Expires the leases of an owner, as a look does that finds it absent for long. */
  async expire(number: string): Promise<unknown[]> {
    return [...await sql`select * from ${sql(this.schema)}.expire_owner(${number})`];
  }
}

interface Owner {
  readonly number: string;
  readonly pid: number;
}

const sql = url === undefined ? undefined! : observer();

/** Resolves when the server has no process with this pid. */
async function gone(pid: number): Promise<void> {
  await eventually(async () => {
    const [row] = await sql`select count(*)::int as count from pg_stat_activity where pid = ${pid}`;
    assertEquals(row!.count, 0);
  });
}

describe("owners of leases in PostgreSQL", { ...options, concurrency: 4 }, () => {
  after(() => sql?.end());

  it("another process receives the message of a killed one, whose receipt handle is stale", async () => {
    const site = new Site();
    await using watcher = await site.watch("killed");
    await watcher.mailbox.send("work");
    await using held = await site.hold("killed");
    const received = watcher.receive();
    held.child.kill("SIGKILL");
    const killedAt = performance.now();
    const [message] = await received;
    const tookMs = performance.now() - killedAt;
    assert(tookMs < 30_000, `${tookMs} ms`);
    assertEquals([message!.body, message!.deliveryCount, message!.leaseExpiries], ["work", 2, 1]);
    assertEquals(watcher.warnings, [`killed: ${DIED}`]);
    const extender = await openExtender({
      ...{ url: url!, schema: site.schema, queue: "killed", callTimeoutMs: 5_000 },
    });
    const handles = [held.handles[0]!, message!.receiptHandle];
    assertEquals(await extender.extend(handles, 60_000), [false, true]);
    await extender.close();
    await message!.acknowledge();
  });

  it("a frozen process keeps its message, and settles it when it continues", async () => {
    const site = new Site();
    await using watcher = await site.watch("frozen");
    await using commands = await site.open("frozen.commands");
    await watcher.mailbox.send("work");
    await using held = await site.hold("frozen");
    held.child.kill("SIGSTOP");
    await watcher.receivesNothingIn(LOOKS);
    held.child.kill("SIGCONT");
    await commands.send("acknowledge");
    await held.child.line("acknowledged");
    assertEquals(await watcher.mailbox.approximateCount(), 0);
    assertEquals(watcher.warnings, []);
  });

  it("a process whose connection was cut registers again and keeps its message", async () => {
    const site = new Site();
    await using watcher = await site.watch("cut");
    await watcher.mailbox.send("work");
    await using held = await site.hold("cut");
    const before = await site.owner();
    await sql`select pg_terminate_backend(${before.pid})`;
    await watcher.receivesNothingIn(LOOKS);
    const now = await site.owner();
    assertEquals(now.number, before.number);
    assert(now.pid !== before.pid, "it has registered its new connection");
    held.child.kill("SIGKILL");
    assertEquals((await watcher.receive())[0]?.leaseExpiries, 1);
  });

  it("a process that closes is not looked at, and its message stays with its lease", async () => {
    const site = new Site();
    await using watcher = await site.watch("closed");
    const client = observer();
    const leaving = await site.open("closed", client);
    await leaving.send("work");
    await leaving.receive();
    const { number, pid } = await site.owner();
    await leaving.close();
    await client.end();
    await gone(pid);
    assertEquals((await site.owners()).filter((it) => it.number === number), []);
    await watcher.receivesNothingIn(LOOKS);
    assertEquals((await watcher.mailbox.stats()).inFlight, 1);
  });

  it("a process that receives nothing more still finds the dead one", async () => {
    const site = new Site();
    await using mailbox = await site.open("busy");
    await mailbox.send("work");
    await using held = await site.hold("busy");
    const { pid } = await site.owner();
    held.child.kill("SIGKILL");
    await gone(pid);
    await mailbox.send("other");
    await using watcher = await site.watch("busy");
    assertEquals((await watcher.mailbox.receive())[0]?.body, "other");
    await watcher.warned(1);
    assertEquals(watcher.warnings, [`busy: ${DIED}`]);
    assertEquals((await mailbox.stats()).waiting, 1);
  });

  it("the messages of all queues of a dead process are received", async () => {
    const site = new Site();
    await using first = await site.watch("first");
    await using second = await site.open("second");
    await first.mailbox.send("one");
    await second.send("two");
    await using held = await site.hold("first", "second");
    const received = Promise.all([first.receive(), second.receive({ waitTimeMs: 60_000 })]);
    held.child.kill("SIGKILL");
    const [[one], [two]] = await received;
    assertEquals([one!.body, one!.leaseExpiries], ["one", 1]);
    assertEquals([two!.body, two!.leaseExpiries], ["two", 1]);
  });

  it("the message of a dead process stays the first of its key", async () => {
    const site = new Site();
    await using watcher = await site.watch("keyed");
    await watcher.mailbox.sendMany(["1", "2"], () => ({ key: "k" }));
    await using held = await site.hold("keyed");
    held.child.kill("SIGKILL");
    const [message] = await watcher.receive();
    assertEquals(message!.body, "1");
    assertEquals(await watcher.mailbox.receive(), []);
    await message!.acknowledge();
    assertEquals((await watcher.mailbox.receive())[0]?.body, "2");
  });

  it("a message that a transaction has locked is left, and found by a later look", async () => {
    const site = new Site();
    await using mailbox = await site.open("locked");
    await mailbox.send("work");
    await using held = await site.hold("locked");
    const { number, pid } = await site.owner();
    held.child.kill("SIGKILL");
    await gone(pid);
    await sql.begin(async (tx) => {
      await tx`select from ${tx(site.schema)}.messages where queue = 'locked' for update`;
      assertEquals(await site.expire(number), []);
    });
    assertEquals((await site.owners()).filter((it) => it.number === number).length, 1);
    assertEquals(await site.expire(number), [{ mailbox: "locked", messages: "1" }]);
    assertEquals((await site.owners()).filter((it) => it.number === number), []);
  });

  it("a process that was taken for dead registers again with its next look", async () => {
    const site = new Site();
    await using watcher = await site.watch("revived");
    await using mailbox = await site.open("revived");
    await mailbox.send("work");
    await watcher.mailbox.receive();
    const { number, pid } = await site.owner();
    await sql`delete from ${sql(site.schema)}.owners where number = ${number}`;
    void watcher.receive();
    await eventually(async () => {
      const numbers = (await site.owners()).filter((it) => it.pid === pid).map((it) => it.number);
      assert(numbers.length === 1 && numbers[0] !== number, `${numbers}`);
    });
  });

  it("a receive of a queue with no message in flight waits for no look", async () => {
    const shared = { clock: systemClock, callTimeoutMs: 5_000 };
    const { schema } = new Site();
    const linkOptions = { ...shared, target: url!, schema, maxConnections: 2 };
    const link = await openPostgresLink(linkOptions, true, silentLog);
    const engine = new PostgresEngine("idle", link, {
      ...{ ...shared, maxSize: 10, pollIntervalMs: 1_000, random: systemRandom, log: silentLog },
      registers: true,
    });
    assertEquals((await engine.receive(1, 60_000)).nextDueMs, Infinity);
    await engine.send([{ id: "1", body: "work", delayMs: 0, dedup: false }]);
    assertEquals((await engine.receive(1, 60_000)).deliveries.length, 1);
    const { nextDueMs } = await engine.receive(1, 60_000);
    assert(nextDueMs <= 1_000, `${nextDueMs} ms`);
    await engine.close();
  });

  it("a client that does not tell its pid turns the detection off, and works", async () => {
    const site = new Site();
    const client = observer();
    await using _ = { [Symbol.asyncDispose]: () => client.end() };
    const warnings: string[] = [];
    const log = { debug() {}, info() {}, error() {}, warn: (text: string) => warnings.push(text) };
    const reticent: SqlClient = {
      unsafe: (...args) => client.unsafe(...args),
      async listen(...args) {
        const { unlisten } = await client.listen(...args);
        return { unlisten };
      },
    };
    await using mailbox = await PostgresMailbox.open(reticent, {
      ...{ schema: site.schema, name: "reticent", log },
    });
    assertEquals(mailbox.capabilities.ownerDetection, true);
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    assertEquals(mailbox.capabilities.ownerDetection, false);
    assertEquals(mailbox.capabilities, mailbox.capabilities);
    assertMatch(warnings.join(), /^owner detection is off/);
    await message!.acknowledge();
    await mailbox.receive();
    assertEquals(warnings.length, 1);
    assertEquals(await site.owners(), []);
    await mailbox.close();
  });

  it("a receipt handle of a dead process cannot acknowledge", async () => {
    const site = new Site();
    await using mailbox = await site.open("stale");
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    const { number } = await site.owner();
    await sql`update ${sql(site.schema)}.owners set pid = 0`;
    assertEquals(await site.expire(number), [{ mailbox: "stale", messages: "1" }]);
    await assertRejects(() => message!.acknowledge());
    assertEquals((await mailbox.receive())[0]?.leaseExpiries, 1);
  });
});
