import { after, before, describe, it } from "node:test";
import { assert, assertEquals, assertLess } from "@std/assert";
import type postgres from "postgres";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { PLANNING } from "../../../src/engines/postgres/client.ts";
import { type Statements, statementsFor } from "../../../src/engines/postgres/_statements.ts";
import { silentLog } from "../../../src/log.ts";
import { privateOptions, PrivatePostgres } from "./_private.ts";
import { observer } from "./_shared.ts";

/** As many as a busy queue leaves behind in a minute while a report holds its snapshot. */
const DEAD_ROWS = 300_000;
const BATCH = 500;
const SCHEMA = "lastcall";

/** A step of a plan, as EXPLAIN tells it. */
interface Step {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly "TID Cond"?: string;
  readonly "Rows Removed by Filter"?: number;
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
  readonly "Plans"?: readonly Step[];
}

/** The indexes of the messages, and by what each may be used. */
const CONDITIONS: Readonly<Record<string, RegExp>> = {
  messages_pkey: /^\(id = ANY/,
  messages_line: /queue = \$1/,
  messages_leased: /queue = \$1/,
  messages_joining: /queue = \$1/,
  messages_chosen: /queue = \$1.*message_id = \$2/,
  messages_generated: /hashtextextended\(message_id, .* = hashtextextended\(\$2/,
};

function stepsOf(plan: Step): readonly Step[] {
  return [plan, ...(plan.Plans ?? []).flatMap(stepsOf)];
}

/** How many pages a statement has read. */
function blocksOf([plan]: readonly Step[]): number {
  return plan!["Shared Hit Blocks"] + plan!["Shared Read Blocks"];
}

describe(
  "a PostgresMailbox beside a transaction that keeps dead rows alive",
  privateOptions,
  () => {
    let server: PrivatePostgres;
    let foreign: postgres.Sql;
    let end = () => {};
    let held: Promise<unknown> = Promise.resolve();
    const statements = statementsFor(SCHEMA);

    before(async () => {
      server = await PrivatePostgres.start();
      await (await PostgresMailbox.open(server.url)).close();
      foreign = observer(server.url);
      const begun = new Promise<void>((resolve) => {
        held = foreign.begin("isolation level repeatable read", async (transaction) => {
          await transaction`select pg_current_xact_id()`;
          resolve();
          await new Promise<void>((resolve) => end = resolve);
        });
      });
      await begun;
      // Each message dies twice: when it is taken, and when it is removed.
      await foreign.unsafe(`
      alter table ${SCHEMA}.messages set (autovacuum_enabled = false);
      insert into ${SCHEMA}.messages (queue, message_id, chosen, body, visible_at, key, place)
        select 'jobs', 'old ' || i, false, '1', '-infinity', case when i % 2 = 0 then 'key ' || i end,
          case when i % 2 = 0 then 1 end
        from generate_series(1, ${DEAD_ROWS / 2}) as i;
      update ${SCHEMA}.messages set visible_at = now() + interval '1 second', receipt = 1;
      delete from ${SCHEMA}.messages`);
      await foreign.unsafe(`vacuum analyze ${SCHEMA}.messages`);
    });
    after(async () => {
      end();
      await held;
      await foreign?.end();
      await server?.[Symbol.asyncDispose]();
    });

    /** Runs a statement by the plan that is kept for any parameters, and returns its steps. */
    async function run(
      sql: postgres.Sql,
      name: keyof Statements,
      ...values: readonly string[]
    ): Promise<readonly Step[]> {
      await sql.unsafe(`prepare "${name}" as ${statements[name]}`);
      const parameters = values.map((value) => `'${value}'`).join(", ");
      const [row] = await sql.unsafe(
        `explain (analyze, buffers, format json) execute "${name}" (${parameters})`,
      );
      await sql.unsafe(`deallocate "${name}"`);
      const [{ Plan }] = row!["QUERY PLAN"] as readonly [{ readonly Plan: Step }];
      return stepsOf(Plan);
    }

    for (const [who, settings] of [["of its own", PLANNING], ["of the program", {}]] as const) {
      it(`statements find messages by key and the queue by its index, on connections ${who}`, async () => {
        const sql = observer(server.url, { ...settings, plan_cache_mode: "force_generic_plan" });
        const [{ reltuples }] = await sql`select reltuples from pg_class
        where oid = ${`${SCHEMA}.messages`}::regclass` as unknown as [{ reltuples: number }];
        assertEquals(reltuples, 0, "the statistics have seen nothing but dead rows");
        const mailbox = await PostgresMailbox.open<number>(server.url, {
          name: "jobs",
          log: silentLog,
        });
        await mailbox.sendMany(Array.from({ length: BATCH }, (_, i) => i));

        const nonce = "77";
        const plans: [name: string, steps: readonly Step[]][] = [];
        const explain = async (name: keyof Statements, ...values: readonly string[]) => {
          plans.push([name, await run(sql, name, ...values)]);
        };
        await sql.begin(async (transaction) => {
          const inside = transaction as unknown as postgres.Sql;
          const explain = async (name: keyof Statements, ...values: readonly string[]) => {
            plans.push([name, await run(inside, name, ...values)]);
          };
          await explain("receive", "jobs", `${BATCH}`, "60000", nonce, "true");
          const rows = await inside.unsafe(
            `select id from ${SCHEMA}.messages where receipt = ${nonce}`,
          );
          assertEquals(rows.length, BATCH);
          const keys = `{${rows.map(({ id }) => id)}}`;
          const nonces = `{${rows.map(() => nonce)}}`;
          await explain("extend", keys, nonces, "60000");
          await explain("extendUnlocked", keys, nonces, "60000");
          await explain("checkpoint", keys, nonces, "1");
          await explain("nonces", keys);
          await explain("nack", keys, nonces, "60000", "0");
          await inside.unsafe(`update ${SCHEMA}.messages set receipt = ${nonce}`);
          await explain("release", keys, nonces);
          await inside.unsafe(
            `update ${SCHEMA}.messages set receipt = ${nonce}, visible_at = now() + interval '1 h'`,
          );
          await explain("acknowledge", keys, nonces);
          await inside.unsafe(`insert into ${SCHEMA}.waiting
            values (${nonce}, 'jobs', 'inbox', now() + interval '1 h')`);
          const one = ["{a}", "{false}", "{1}", "{0}", "{null}", "{null}", "{0}"];
          await explain("handOver", "jobs", ...one);
          const [handed] = await inside.unsafe(
            `select id from ${SCHEMA}.messages where receipt = ${nonce}`,
          );
          await explain("findHanded", "jobs", nonce);
          await explain("releaseHanded", "jobs", nonce);
          await inside.unsafe(
            `update ${SCHEMA}.messages set receipt = ${nonce}, visible_at = now() + interval '1 h'`,
          );
          await explain("confirm", handed!.id, nonce, "60000");
          await inside.unsafe(`delete from ${SCHEMA}.messages`);
        });
        await mailbox.send(1, { id: "chosen" });
        await explain("find", "jobs", "chosen");
        await explain("deliverNow", "jobs", "chosen");
        await mailbox.cancel("chosen");
        for (const name of ["nextDue", "makeDueReady"] as const) await explain(name, "jobs");
        await explain("peek", "jobs", "10", "0");

        for (const [name, steps] of plans) {
          const plan = `${name}: ${JSON.stringify(steps[0], undefined, 1)}`;
          const scans = steps.filter((step) => {
            return step["Relation Name"] === "messages" && step["Node Type"].includes("Scan");
          });
          assert(scans.length > 0, plan);
          for (const scan of scans) {
            // The rows that the same statement has found and locked.
            if (scan["Node Type"] === "Tid Scan") {
              assertEquals([name, scan["TID Cond"]?.startsWith("(ctid = ANY")], ["receive", true]);
              continue;
            }
            const cond = scan["Index Cond"] ?? "";
            const index = scan["Index Name"] ?? "";
            const expected = CONDITIONS[index];
            assert(expected?.test(cond), `${index}: ${cond}\n${plan}`);
            // A leased message is looked for among the leased ones, by its id.
            const byId = name === "find" || name === "deliverNow";
            if (!byId) assertEquals(scan["Rows Removed by Filter"] ?? 0, 0, plan);
          }
          const byKey = scans.every((step) => step["Index Name"] === "messages_pkey");
          if (byKey) assertLess(blocksOf(steps), 30 * BATCH, plan);
        }
        assertEquals(plans.length, 17);

        // And as the mailbox itself does it.
        await mailbox.sendMany(Array.from({ length: BATCH }, (_, i) => i));
        const messages = await mailbox.receive({ maxMessages: BATCH });
        assertEquals(messages.length, BATCH);
        assertEquals(await mailbox.extendMany(messages, 60_000), messages.map(() => true));
        assertEquals(await mailbox.acknowledgeMany(messages), messages.map(() => true));
        assertEquals(await mailbox.approximateCount(), 0);
        await mailbox.close();
        await sql.end();
      });

      it(`statements find the messages of a key by its index, on connections ${who}`, async () => {
        const sql = observer(server.url, { ...settings, plan_cache_mode: "force_generic_plan" });
        const mailbox = await PostgresMailbox.open<number>(server.url, { name: "jobs" });
        const bodies = Array.from({ length: BATCH }, (_, i) => i);
        const list = (value: (i: number) => unknown) => `{${bodies.map((i) => `"${value(i)}"`)}}`;
        const keys = list((i) => `key ${i}`);
        await sql.begin(async (transaction) => {
          const inside = transaction as unknown as postgres.Sql;
          const explain = async (name: keyof Statements, ...values: readonly string[]) => {
            const steps = await run(inside, name, ...values);
            assertLess(blocksOf(steps), 150 * BATCH, `${name}: ${JSON.stringify(steps[0])}`);
          };
          // Two messages of each key.
          for (const turn of ["a", "b"]) {
            await explain(
              ...[
                "store",
                "jobs",
                list((i) => `${turn}${i}`),
                list(() => false),
                list(() => 1),
              ] as const,
              ...[list(() => 0), list(() => 1), list(() => 1), list(() => 0), keys],
              ...[list(() => 1), `{${bodies.map(() => "null")}}`, "10000"],
            );
          }
          await inside.unsafe(statements.receive, ["jobs", "1000", "60000", "77", "true"]);
          const rows = await inside.unsafe(`select id from ${SCHEMA}.messages where receipt = 77`);
          assertEquals(rows.length, BATCH, "the first of each key");
          const numbers = `{${rows.map(({ id }) => id)}}`;
          await explain("acknowledgeKeyed", numbers, `{${rows.map(() => 77)}}`, "jobs", keys);
          await inside.unsafe(`update ${SCHEMA}.messages set place = null, visible_at = now()`);
          await explain("joinKeys", "jobs");
          const ready = await inside.unsafe(
            `select from ${SCHEMA}.messages where visible_at = '-infinity'`,
          );
          assertEquals(ready.length, BATCH, "the second of each key");
          await explain("cancel", "jobs", "b7", "channel", "sender");
          await inside.unsafe(`delete from ${SCHEMA}.messages`);
        });
        await mailbox.close();
        await sql.end();
      });
    }
  },
);
