import { after, describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { openExtender } from "../../../src/engines/postgres/postgres_mailbox.ts";
import { eventually } from "../_servers.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";
import { holder, Watcher } from "./_watchers.ts";

/** So many looks take longer than the grace. */
const LOOKS = 5;

const DIED = "worker died; its messages are delivered again";

describe("owners of leases in PostgreSQL", options, () => {
  const schema = ownSchema();
  const sql = url === undefined ? undefined! : observer();
  after(() => sql?.end());

  const open = (name: string, target: string | SqlClient = url!) =>
    PostgresMailbox.open<string>(target, { schema, name });

  const owners = () =>
    sql`select number, pid from ${sql(schema)}.owners order by number` as Promise<
      { number: string; pid: number }[]
    >;

  /** The owner of the only message in flight of a queue. */
  const ownerOf = async (queue: string) => {
    const [row] = await sql`select number, pid from ${sql(schema)}.owners where number = (
      select receipt >> 32 from ${sql(schema)}.messages where queue = ${queue} and receipt is not null)`;
    return row as { readonly number: string; readonly pid: number };
  };

  const isConnected = async (pid: number) => {
    const [row] = await sql`select count(*)::int as count from pg_stat_activity where pid = ${pid}`;
    return row!.count > 0;
  };

  it("another process receives the message of a killed one, whose receipt handle is stale", async () => {
    await using watcher = await Watcher.open(url!, schema, "killed");
    await watcher.mailbox.send("work");
    await using held = await holder(url!, schema, "killed");
    const received = watcher.receive();
    held.child.kill("SIGKILL");
    const killedAt = performance.now();
    const [message] = await received;
    const tookMs = performance.now() - killedAt;
    assert(tookMs < 30_000, `${tookMs} ms`);
    assertEquals([message!.body, message!.deliveryCount, message!.leaseExpiries], ["work", 2, 1]);
    assertEquals(watcher.warnings, [`killed: ${DIED}`]);
    const extender = await openExtender({
      ...{ url: url!, schema, queue: "killed", callTimeoutMs: 5_000 },
    });
    const handles = [held.handles[0]!, message!.receiptHandle];
    assertEquals(await extender.extend(handles, 60_000), [false, true]);
    await extender.close();
    await message!.acknowledge();
  });

  it("a frozen process keeps its message, and settles it when it continues", async () => {
    await using watcher = await Watcher.open(url!, schema, "frozen");
    await using commands = await open("commands");
    await watcher.mailbox.send("work");
    await using held = await holder(url!, schema, "frozen");
    held.child.kill("SIGSTOP");
    await watcher.receivesNothingIn(LOOKS);
    held.child.kill("SIGCONT");
    await commands.send("acknowledge");
    await held.child.line("acknowledged");
    assertEquals(await watcher.mailbox.approximateCount(), 0);
    assertEquals(watcher.warnings, []);
  });

  it("a process whose connection was cut registers again and keeps its message", async () => {
    await using watcher = await Watcher.open(url!, schema, "cut");
    await watcher.mailbox.send("work");
    await using held = await holder(url!, schema, "cut");
    const before = await ownerOf("cut");
    await sql`select pg_terminate_backend(${before.pid})`;
    await watcher.receivesNothingIn(LOOKS);
    const now = await ownerOf("cut");
    assertEquals(now.number, before.number);
    assert(now.pid !== before.pid, "it has registered its new connection");
    held.child.kill("SIGKILL");
    assertEquals((await watcher.receive())[0]?.leaseExpiries, 1);
  });

  it("a process that closes is not looked at, and its message stays with its lease", async () => {
    await using watcher = await Watcher.open(url!, schema, "closed");
    const client = observer();
    const leaving = await open("closed", client);
    await leaving.send("work");
    await leaving.receive();
    const { number, pid } = await ownerOf("closed");
    await leaving.close();
    await client.end();
    await eventually(async () => assert(!await isConnected(pid)));
    assertEquals((await owners()).filter((it) => it.number === number), []);
    await watcher.receivesNothingIn(LOOKS);
    assertEquals((await watcher.mailbox.stats()).inFlight, 1);
  });

  it("a process that receives nothing more still finds the dead one", async () => {
    await using mailbox = await open("busy");
    await mailbox.send("work");
    await using held = await holder(url!, schema, "busy");
    const { pid } = await ownerOf("busy");
    held.child.kill("SIGKILL");
    await eventually(async () => assert(!await isConnected(pid)));
    await mailbox.send("other");
    await using watcher = await Watcher.open(url!, schema, "busy");
    assertEquals((await watcher.mailbox.receive())[0]?.body, "other");
    await watcher.warned(1);
    assertEquals(watcher.warnings, [`busy: ${DIED}`]);
    assertEquals((await mailbox.stats()).waiting, 1);
  });

  it("the messages of all queues of a dead process are received", async () => {
    await using first = await Watcher.open(url!, schema, "first");
    await using second = await open("second");
    await first.mailbox.send("one");
    await second.send("two");
    await using held = await holder(url!, schema, "first", "second");
    const received = Promise.all([first.receive(), second.receive({ waitTimeMs: 60_000 })]);
    held.child.kill("SIGKILL");
    const [[one], [two]] = await received;
    assertEquals([one!.body, one!.leaseExpiries], ["one", 1]);
    assertEquals([two!.body, two!.leaseExpiries], ["two", 1]);
  });

  it("the message of a dead process stays the first of its key", async () => {
    await using watcher = await Watcher.open(url!, schema, "keyed");
    await watcher.mailbox.sendMany(["1", "2"], () => ({ key: "k" }));
    await using held = await holder(url!, schema, "keyed");
    held.child.kill("SIGKILL");
    const [message] = await watcher.receive();
    assertEquals(message!.body, "1");
    assertEquals(await watcher.mailbox.receive(), []);
    await message!.acknowledge();
    assertEquals((await watcher.mailbox.receive())[0]?.body, "2");
  });

  it("a message that a transaction has locked is left, and found by a later look", async () => {
    await using mailbox = await open("locked");
    await mailbox.send("work");
    await using held = await holder(url!, schema, "locked");
    const { number, pid } = await ownerOf("locked");
    held.child.kill("SIGKILL");
    await eventually(async () => assert(!await isConnected(pid)));
    const expire = (tx = sql) => tx`select * from ${tx(schema)}.expire_owner(${number})`;
    await sql.begin(async (tx) => {
      await tx`select from ${tx(schema)}.messages where queue = 'locked' for update`;
      assertEquals([...await expire()], []);
    });
    assertEquals((await owners()).filter((it) => it.number === number).length, 1);
    assertEquals([...await expire()], [{ mailbox: "locked", messages: "1" }]);
    assertEquals((await owners()).filter((it) => it.number === number), []);
  });

  it("a process that was taken for dead registers again with its next look", async () => {
    await using watcher = await Watcher.open(url!, schema, "revived");
    await using mailbox = await open("revived");
    await mailbox.send("work");
    await watcher.mailbox.receive();
    const { number, pid } = await ownerOf("revived");
    await sql`delete from ${sql(schema)}.owners where number = ${number}`;
    void watcher.receive();
    await eventually(async () => {
      const numbers = (await owners()).filter((it) => it.pid === pid).map((it) => it.number);
      assert(numbers.length === 1 && numbers[0] !== number, `${numbers}`);
    });
  });

  it("a queue without messages in flight is not looked at, and sends no statements", async () => {
    await using watcher = await Watcher.open(url!, schema, "idle");
    const received = watcher.receive();
    const client = observer();
    await using sender = await open("idle", client);
    await eventually(async () => {
      const before = watcher.statements;
      await new Promise((resolve) => setTimeout(resolve, 300));
      assertEquals(watcher.statements, before);
    });
    const [before, looks] = [watcher.statements, watcher.looks];
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    assertEquals([watcher.statements, watcher.looks], [before, looks]);
    await sender.send("work");
    assertEquals((await received)[0]?.body, "work");
    await client.end();
  });

  it("a client that does not tell its pid turns the detection off, and works", async () => {
    const client = observer();
    const warnings: string[] = [];
    const log = { debug() {}, info() {}, error() {}, warn: (text: string) => warnings.push(text) };
    const reticent: SqlClient = {
      unsafe: (...args) => client.unsafe(...args),
      async listen(...args) {
        const { unlisten } = await client.listen(...args);
        return { unlisten };
      },
    };
    const before = await owners();
    const mailbox = await PostgresMailbox.open(reticent, { schema, name: "reticent", log });
    assertEquals(mailbox.capabilities.ownerDetection, true);
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    assertEquals(mailbox.capabilities.ownerDetection, false);
    assertEquals(mailbox.capabilities, mailbox.capabilities);
    assertMatch(warnings.join(), /^owner detection is off/);
    await message!.acknowledge();
    await mailbox.receive();
    assertEquals(warnings.length, 1);
    assertEquals(await owners(), before);
    await mailbox.close();
    await client.end();
  });

  it("a receipt handle of a dead process cannot acknowledge", async () => {
    await using mailbox = await open("stale");
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    await sql`update ${sql(schema)}.owners set pid = 0 where number = ${(await ownerOf("stale")).number}`;
    const [row] = await sql`select (receipt >> 32)::text as number from ${sql(schema)}.messages
      where queue = 'stale'`;
    await sql`select * from ${sql(schema)}.expire_owner(${row!.number})`;
    await assertRejects(() => message!.acknowledge());
    assertEquals((await mailbox.receive())[0]?.leaseExpiries, 1);
  });
});
