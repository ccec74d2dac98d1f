import { after, describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { eventually } from "../_servers.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";

const COUNT = 1_000;

describe("what a PostgresMailbox stores beside its messages", options, () => {
  const schema = ownSchema();
  const sql = url === undefined ? undefined! : observer();
  after(() => sql?.end());

  /** Counts the rows of a queue and its dead letters in all tables. */
  const rowsOf = async (queue: string) => {
    const counts: Record<string, number> = {};
    for (const table of ["messages", "controls", "remembered"]) {
      const [row] = await sql.unsafe(
        `select count(*)::int as count from "${schema}".${table} where queue like $1`,
        [`${queue}%`],
      );
      counts[table] = row!.count;
    }
    return counts;
  };
  const nothing = { messages: 0, controls: 0, remembered: 0 };
  const numbers = (length: number) => Array.from({ length }, (_, i) => i);

  it("a key without messages leaves nothing", async () => {
    await using mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "idle" });
    await mailbox.sendMany(numbers(COUNT), (body) => ({ key: `key ${body % (COUNT / 2)}` }));
    for (let i = 0; i < 2; i++) {
      const messages = await mailbox.receive({ maxMessages: COUNT });
      assertEquals(messages.length, COUNT / 2);
      await mailbox.acknowledgeMany(messages);
    }
    assertEquals(await rowsOf("idle"), nothing);
  });

  it("a purge of messages with keys leaves nothing", async () => {
    await using mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "purged" });
    await mailbox.sendMany(numbers(10), (body) => ({ id: `${body}`, key: "k", dedupMs: 60_000 }));
    assertEquals(await mailbox.purge(), 10);
    assertEquals(await rowsOf("purged"), nothing);
  });

  it("ids are deleted when their time is over", async () => {
    await using mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "forgetful" });
    const send = (prefix: string, dedupMs: number) =>
      mailbox.sendMany(numbers(COUNT), (body) => ({ id: `${prefix} ${body}`, dedupMs }));
    await send("old", 1);
    await send("new", 600_000);
    await eventually(async () => assertEquals((await rowsOf("forgetful")).remembered, COUNT));
    await sql.begin(async (tx) => {
      const transaction = mailbox.withTransaction(tx);
      await transaction.sendMany(numbers(200), (body) => ({ id: `tx ${body}`, dedupMs: 1 }));
    });
    await send("newer", 600_000);
    await eventually(async () => assertEquals((await rowsOf("forgetful")).remembered, 2 * COUNT));
  });

  it("a reply mailbox leaves nothing when its process closes", async () => {
    await using worker = await PostgresMailbox.open<string>(url!, { schema, name: "asked" });
    const asking = await PostgresMailbox.open<string>(url!, { schema, name: "asked" });
    const reply = asking.request("ping");
    const [message] = await worker.receive({ waitTimeMs: 20_000 });
    await message!.reply("pong");
    await message!.acknowledge();
    assertEquals(await reply, "pong");
    await asking.close();
    assertEquals(await rowsOf("asked.replies"), nothing);
    assertEquals((await worker.queues()).filter(({ name }) => name.startsWith("asked.")), []);
  });

  it("queues has those that are paused or have only dead letters", async () => {
    await using mailbox = await PostgresMailbox.open<string>(url!, { schema, name: "failed" });
    await mailbox.send("work");
    await (await mailbox.receive())[0]!.deadLetter({ reason: "test" });
    await using paused = await PostgresMailbox.open<string>(url!, { schema, name: "halted" });
    await paused.pause();
    const queues = await mailbox.queues();
    const find = (wanted: string) => queues.find(({ name }) => name === wanted);
    assertEquals([find("failed")?.waiting, find("failed")?.dead], [0, 1]);
    assertEquals([find("halted")?.paused, find("halted")?.dead], [true, 0]);
    assert(!queues.some(({ name }) => name.endsWith(".dead")));
  });

  it("a limit and a pause leave nothing when they end", async () => {
    await using mailbox = await PostgresMailbox.open<string>(url!, { schema, name: "ended" });
    await mailbox.pause({ forMs: 600_000 });
    await mailbox.rateLimit({ max: 1, perMs: 60_000 });
    await mailbox.send("work");
    assertEquals(await mailbox.receive(), []);
    await mailbox.rateLimit(false);
    assertEquals((await mailbox.stats()).paused, true, "the pause is left");
    await mailbox.rateLimit({ max: 1, perMs: 60_000 });
    await mailbox.resume();
    assertEquals((await mailbox.stats()).rateLimit?.max, 1, "the limit is left");
    await mailbox.rateLimit(false);
    assertEquals((await rowsOf("ended")).controls, 0);
    await mailbox.pause({ forMs: 1 });
    assertEquals((await mailbox.receive({ waitTimeMs: 20_000 })).map(({ body }) => body), ["work"]);
    assertEquals((await rowsOf("ended")).controls, 0, "the receive deletes a pause that has ended");
  });

  it("a process that waits learns of a new limit without polling", async () => {
    const client = observer();
    const never = { pollIntervalMs: 3_600_000 };
    await using here = await PostgresMailbox.open<string>(url!, { schema, name: "told", ...never });
    await using there = await PostgresMailbox.open<string>(client, { schema, name: "told" });
    await there.rateLimit({ max: 1, perMs: 3_600_000 });
    await there.sendMany(["1", "2"]);
    assertEquals((await here.receive({ maxMessages: 2 })).length, 1);
    const received = here.receive({ waitTimeMs: 3_600_000 });
    await eventually(async () => {
      const [row] = await sql`select count(*)::int as count from pg_stat_activity
        where query ilike ${`listen%${schema}_wake%`}`;
      assert(row!.count > 0, "it listens");
    });
    await there.rateLimit({ max: 2, perMs: 3_600_000 });
    assertEquals((await received).map(({ body }) => body), ["2"]);
    await there.close();
    await client.end();
  });

  it("a process hears that a message with a long id was cancelled", async () => {
    const client = observer();
    await using here = await PostgresMailbox.open<string>(url!, { schema, name: "long" });
    await using there = await PostgresMailbox.open<string>(client, { schema, name: "long" });
    for (const id of ["short", `two words\n ${"ü".repeat(12_345)}`, ""]) {
      await here.send("work", { id });
      await here.receive();
      const heard = deferred<string>();
      const stop = here.onCancel((id) => heard.resolve(id));
      await eventually(async () => {
        const [row] = await sql`select count(*)::int as count from pg_stat_activity
          where query ilike ${`listen%${schema}_wake%`}`;
        assert(row!.count > 0, "it listens");
      });
      assert(await there.cancel(id));
      assertEquals(await heard.promise, id);
      await stop();
    }
    await client.end();
  });
});
