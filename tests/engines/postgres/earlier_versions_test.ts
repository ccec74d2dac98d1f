import { globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type postgres from "postgres";
import { systemClock } from "../../../src/clock.ts";
import { SCHEMA_VERSION } from "../../../src/engines/postgres/_schema.ts";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { workOff } from "../_kept_data.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

const fixtures = new URL("./fixtures/", import.meta.url);

/** Some seconds after the dumps were made: all leases and delays have passed. */
const DUMPED_AT = "2026-11-18 07:28:00+00";

/** Restores the dump of a version, as if it was made just now, whatever the clock of the server is. */
async function restore(sql: postgres.Sql, version: number, schema: string): Promise<void> {
  const dump = readFileSync(new URL(`schema_${version}.sql`, fixtures), "utf8");
  await sql.unsafe(dump.replaceAll("lastcall_kept", schema));
  await sql.unsafe(`update "${schema}".messages
    set visible_at = visible_at + (now() - '${DUMPED_AT}'::timestamptz)
    where visible_at > '-infinity'`);
  if (version < 4) return;
  await sql.unsafe(`update "${schema}".remembered
    set forget_at = forget_at + (now() - '${DUMPED_AT}'::timestamptz)`);
  if (version < 5) return;
  await sql.unsafe(`update "${schema}".controls
    set paused_until = paused_until + (now() - '${DUMPED_AT}'::timestamptz)
    where paused_until < 'infinity'`);
  await sql.unsafe(`update "${schema}".controls set parts = array(
      select part + floor(extract(epoch from now() - '${DUMPED_AT}'::timestamptz) / 1.2)::bigint
      from unnest(parts) as part
    ) where parts is not null`);
}

describe("PostgreSQL schemas of earlier versions", server, () => {
  it("a dump is kept for every version of the schema", () => {
    assertEquals(globSync("schema_*.sql", { cwd: fixtures }).length, SCHEMA_VERSION);
  });

  for (let version = 1; version <= SCHEMA_VERSION; version++) {
    it(`a schema of version ${version} is migrated and worked off`, async () => {
      const schema = ownSchema();
      const sql = observer();
      await restore(sql, version, schema);
      await using orders = await PostgresMailbox.open<unknown>(url!, { name: "orders", schema });
      const [index] = await sql`select indexdef from pg_indexes
        where schemaname = ${schema} and indexname = 'messages_line'`;
      const columns = await sql`select column_name from information_schema.columns
        where table_schema = ${schema} and table_name = 'messages'
          and column_name in ('envelope', 'meta', 'reply_to')`;
      await sql.end();
      assertStringIncludes(index!.indexdef, "(queue, visible_at, ((- priority)), ((id + 0)))");
      assertEquals(columns.map(({ column_name }) => column_name), ["envelope"]);
      await workOff(orders, systemClock);
    });
  }

  for (let version = 4; version <= SCHEMA_VERSION; version++) {
    it(`the keys of a schema of version ${version} are worked off in order`, async () => {
      const schema = ownSchema();
      const sql = observer();
      await restore(sql, version, schema);
      await sql.end();
      await using keyed = await PostgresMailbox.open<string>(url!, { name: "keyed", schema });
      assertEquals((await keyed.send("again", { id: "remembered", dedupMs: 1 })).stored, false);
      assertEquals(await keyed.receive(), [], "it is paused");
      await keyed.resume();
      const received: string[][] = [];
      for (;;) {
        const messages = await keyed.receive({ maxMessages: 10 });
        if (messages.length === 0) break;
        received.push(messages.map(({ body }) => body));
        await keyed.acknowledgeMany(messages);
      }
      assertEquals(received, [["a1", "b2", "c1"], ["a2", "b3"], ["a3"]]);
    });
  }

  for (let version = 5; version <= SCHEMA_VERSION; version++) {
    it(`the control and the expired leases of a schema of version ${version} are read`, async () => {
      const schema = ownSchema();
      const sql = observer();
      await restore(sql, version, schema);
      await using mailbox = await PostgresMailbox.open<string>(url!, {
        name: "controlled",
        schema,
      });
      const { paused, pausedForMs = 0, rateLimit } = await mailbox.stats();
      assertEquals([paused, rateLimit], [true, { max: 3, perMs: 60_000 }]);
      assert(pausedForMs > 3_500_000 && pausedForMs < 3_600_000, `${pausedForMs} ms`);
      assertEquals(await mailbox.receive(), []);
      await mailbox.resume();
      const receive = async () => {
        const messages = await mailbox.receive({ maxMessages: 10 });
        return messages.map(({ body, leaseExpiries }) => [body, leaseExpiries]);
      };
      assertEquals(await receive(), [["expired", 3]], "two of three were delivered before");
      assertEquals(await receive(), []);
      await mailbox.rateLimit(false);
      assertEquals(await receive(), [["held", 1]]);
      await using sleeping = await PostgresMailbox.open<string>(url!, { name: "sleeping", schema });
      const stats = await sleeping.stats();
      assertEquals([stats.paused, stats.pausedForMs], [true, undefined]);
      await sql.end();
    });
  }

  for (let version = 6; version <= SCHEMA_VERSION; version++) {
    it(`a message that was handed over in a schema of version ${version} has no attempt`, async () => {
      const schema = ownSchema();
      const sql = observer();
      await restore(sql, version, schema);
      await sql.end();
      await using handed = await PostgresMailbox.open<string>(url!, { name: "handed", schema });
      const [message] = await handed.receive();
      assertEquals([message!.deliveryCount, message!.leaseExpiries], [1, 0]);
    });
  }

  it("a worker of version 4 that is connected works after the migration", async () => {
    const schema = ownSchema();
    const sql = observer();
    await restore(sql, 4, schema);
    await sql`delete from ${sql(schema)}.messages`;
    const send = () =>
      sql`insert into ${sql(schema)}.messages
        (queue, message_id, chosen, body, visible_at, envelope, checkpoint, priority)
        values ('jobs', 'a', false, '"work"', '-infinity', null, null, 0)`;
    const receive = () =>
      sql`update ${sql(schema)}.messages set receipt = 9007199254740990, attempts = attempts + 1,
          visible_at = now() + interval '1 minute'
        where id = any(array(select id from ${sql(schema)}.messages
          where queue = 'jobs' and receipt is null and visible_at <= '-infinity' and not exists (
            select from ${sql(schema)}.controls where queue = 'jobs' and key is null
          ) limit 1 for update skip locked)) returning id, envelope as meta`;
    await send();
    assertEquals((await receive()).length, 1);
    await using jobs = await PostgresMailbox.open<string>(url!, { name: "jobs", schema });
    await send();
    assertEquals((await receive()).length, 1);
    // The owners begin above its receipts.
    await jobs.send("own");
    const [own] = await jobs.receive();
    assert(BigInt(own!.receiptHandle.split("-")[1]!) > 9007199254740990n);
    // Its pause has no end, and it takes a limit for a pause.
    await sql`insert into ${sql(schema)}.controls (queue) values ('jobs')`;
    assertEquals((await jobs.stats()).paused, true);
    await jobs.resume();
    await jobs.rateLimit({ max: 10, perMs: 1_000 });
    await send();
    assertEquals((await receive()).length, 0);
    assertEquals((await jobs.receive()).length, 1);
    await sql.end();
  });

  it("a worker of version 3 that is connected can settle after the migration, but not receive", async () => {
    const schema = ownSchema();
    const sql = observer();
    await restore(sql, 3, schema);
    const receive = () =>
      sql`update ${sql(schema)}.messages set attempts = attempts + 1
        where queue = 'orders' returning id, meta`;
    await receive();
    await (await PostgresMailbox.open(url!, { name: "orders", schema })).close();
    await assertRejects(async () => await receive(), Error, "meta");
    const acknowledged = await sql`delete from ${sql(schema)}.messages
      where message_id = 'own-1' and receipt is not null returning id`;
    assertEquals(acknowledged.length, 1);
    await sql.end();
  });

  it("a worker of 0.1 that is connected can settle after the migration, but not send or receive", async () => {
    const schema = ownSchema();
    const sql = observer();
    await restore(sql, 2, schema);
    const send = () =>
      sql`insert into ${sql(schema)}.messages
        (queue, message_id, chosen, body, visible_at, reply_to, checkpoint)
        values ('orders', 'a', false, '1', '-infinity', null, null)`;
    const receive = () =>
      sql`update ${sql(schema)}.messages set attempts = attempts + 1
        where queue = 'orders' returning id, reply_to as address`;
    const [tea] = await sql`select id, receipt from ${sql(schema)}.messages
      where message_id = 'own-1'`;
    await (await PostgresMailbox.open(url!, { name: "orders", schema })).close();
    await assertRejects(async () => await send(), Error, "reply_to");
    await assertRejects(async () => await receive(), Error, "reply_to");
    const acknowledged = await sql`delete from ${sql(schema)}.messages
      where id = ${tea!.id} and receipt = ${tea!.receipt}`;
    assertEquals(acknowledged.count, 1);
    const [{ version }] = await sql`select max(version) as version
      from ${sql(schema)}.migrations` as unknown as [{ readonly version: number }];
    assertEquals(version, SCHEMA_VERSION, "0.1 refuses to open it");
    await sql.end();
  });
});
