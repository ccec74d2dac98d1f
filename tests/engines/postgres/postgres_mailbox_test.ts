import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { PLANNING } from "../../../src/engines/postgres/client.ts";
import { statementsFor } from "../../../src/engines/postgres/_statements.ts";
import { openMailbox } from "../../../src/engines/open_mailbox.ts";
import {
  InvalidParameterError,
  MailboxConnectionError,
  MailboxFullError,
} from "../../../src/mailbox/errors.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";

describe("PostgresMailbox on a server", options, () => {
  const schema = ownSchema();

  it("two pools never receive the same message", async () => {
    const clients = [observer(), observer()];
    const targets = [url!, ...clients];
    const mailboxes = await Promise.all(
      targets.map((target) => PostgresMailbox.open<number>(target, { schema, name: "shared" })),
    );
    const bodies = Array.from({ length: 600 }, (_, i) => i);
    await mailboxes[0]!.sendMany(bodies);
    const seen: number[] = [];
    await Promise.all([...mailboxes, ...mailboxes].map(async (mailbox) => {
      while (await mailbox.approximateCount() > 0) {
        const messages = await mailbox.receive({ maxMessages: 7 });
        seen.push(...messages.map(({ body }) => body));
        await mailbox.acknowledgeMany(messages);
      }
    }));
    assertEquals(seen.sort((a, b) => a - b), bodies);
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
    await Promise.all(clients.map((client) => client.end()));
  });

  it("a message that is due again is received before younger ones", async () => {
    const mailbox = await PostgresMailbox.open<string>(url!, { schema, name: "places" });
    await mailbox.sendMany(["a", "b", "c"]);
    const [a, b] = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 0 });
    assertEquals([a?.body, b?.body], ["a", "b"]);
    const again = await mailbox.receive({ maxMessages: 3 });
    assertEquals(again.map(({ body }) => body), ["a", "b", "c"]);
    await mailbox.close();
  });

  it("concurrent senders never exceed `maxSize`", async () => {
    const client = observer();
    const limits = { schema, name: "small", maxSize: 25 };
    const mailboxes = await Promise.all([
      PostgresMailbox.open<number>(url!, limits),
      PostgresMailbox.open<number>(client, limits),
    ]);
    const sends = Array.from({ length: 60 }, (_, i) => mailboxes[i % 2]!.send(i));
    const ends = await Promise.allSettled(sends);
    assertEquals(ends.filter(({ status }) => status === "fulfilled").length, 25);
    assertEquals(await mailboxes[0]!.approximateCount(), 25);
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
    await client.end();
  });

  it("sends of one turn share a statement and keep their order", async () => {
    const client = observer();
    const inserts: string[] = [];
    const counting: SqlClient = {
      unsafe: (query, parameters, how) => {
        if (query.includes("insert into")) inserts.push(query);
        return client.unsafe(query, parameters, how);
      },
      listen: (...parameters) => client.listen(...parameters),
    };
    const mailbox = await PostgresMailbox.open<number>(counting, { schema, name: "breath" });
    const bodies = Array.from({ length: 50 }, (_, i) => i);
    await Promise.all(bodies.map((body) => mailbox.send(body)));
    assertEquals(inserts.length, 1);
    const messages = await mailbox.receive({ maxMessages: 100 });
    assertEquals(messages.map(({ body }) => body), bodies);
    await mailbox.close();
    await client.end();
  });

  it("a send that the server refuses does not fail the sends beside it", async () => {
    const mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "beside" });
    // Random, because the server compresses it otherwise: an index entry has at most 2704 bytes.
    const random = () => crypto.randomUUID();
    const long = Array.from({ length: 100 }, random).join();
    const sends = [1, 2, 3, 4].map((body) => {
      return mailbox.send(body, { id: body === 2 ? long : random() });
    });
    const later = mailbox.send(5);
    const ends = await Promise.allSettled([...sends, later]);
    assertEquals(ends.map(({ status }) => status === "fulfilled"), [true, false, true, true, true]);
    assertStringIncludes(String((ends[1] as PromiseRejectedResult).reason), "index row size");
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), [1, 3, 4, 5]);
    await mailbox.close();
  });

  it("sends that arrive during a statement share the next one, up to its size", async () => {
    const client = observer();
    const sizes: number[] = [];
    const target: SqlClient = {
      listen: client.listen.bind(client),
      unsafe(query, parameters, options) {
        if (query.includes("insert into")) sizes.push(parameters![1]!.split(",").length);
        return client.unsafe(query, parameters as string[], options);
      },
    };
    const mailbox = await PostgresMailbox.open<string>(target, {
      schema,
      name: "sizes",
      maxBodyBytes: 2_000_000,
    });
    const lone = mailbox.send("a");
    await Promise.resolve(); // the statement of the lone send has begun
    const large = "b".repeat(1_500_000);
    await Promise.all([lone, ...[large, large, large, "c"].map((body) => mailbox.send(body))]);
    assertEquals(sizes, [1, 2, 2]);
    await mailbox.close();
    await client.end();
  });

  it("a receive finds the oldest messages by the index, without statistics", async () => {
    const sql = observer(url, PLANNING);
    const mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "plan" });
    const bodies = Array.from({ length: 1_000 }, (_, i) => i);
    for (let i = 0; i < 5; i++) await mailbox.sendMany(bodies);
    const { receive } = statementsFor(schema);
    const parameters = ["plan", "10", "1000", "1", "false"];
    const rows = await sql.unsafe(`explain ${receive}`, parameters);
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    assertStringIncludes(plan, "Scan using messages_line");
    assertStringIncludes(plan, "Tid Scan on messages");
    assert(!/Seq Scan|Bitmap|Sort/.test(plan), plan);
    await mailbox.close();
    await sql.end();
  });

  it("settlements hash the receipt handles, also in a generic plan", async () => {
    const sql = observer(url, { ...PLANNING, plan_cache_mode: "force_generic_plan" });
    const mailbox = await PostgresMailbox.open<number>(url!, { schema, name: "plan" });
    const { acknowledge, extend, release } = statementsFor(schema);
    for (const [name, statement] of Object.entries({ acknowledge, extend, release })) {
      const values = statement === extend ? "'{1}', '{2}', '1000'" : "'{1}', '{2}'";
      const [, rows] = await sql.unsafe(
        `prepare plan_${name} as ${statement}; explain execute plan_${name} (${values})`,
      ) as unknown as Record<string, string>[][];
      const plan = rows!.map((row) => row["QUERY PLAN"]).join("\n");
      assertStringIncludes(plan, "hashed SubPlan");
      assertStringIncludes(plan, "Scan using messages_pkey");
    }
    await mailbox.close();
    await sql.end();
  });

  it("openMailbox opens a PostgreSQL URL and passes other parameters to the client", async () => {
    for (const scheme of ["postgres", "postgresql"]) {
      const place = url!.replace(/^\w+/, scheme);
      const mailbox = await openMailbox<number>(
        `${place}?queue=by_url&application_name=shop&schema=${schema}&maxSize=1`,
      );
      assert(mailbox instanceof PostgresMailbox);
      assertEquals(mailbox.name, "by_url");
      await mailbox.send(1);
      await assertRejects(() => mailbox.send(2), MailboxFullError);
      await mailbox.purge();
      await mailbox.close();
    }
  });

  it("close does not end a client that the caller passed", async () => {
    const client = observer();
    const mailbox = await PostgresMailbox.open(client, { schema });
    await mailbox.receive({ waitTimeMs: 10 });
    await mailbox.close();
    assertEquals((await client`select 1 as one`)[0]?.one, 1);
    await client.end();
  });

  it("close leaves no connection open", async () => {
    const sql = observer();
    const name = `lastcall_${crypto.randomUUID()}`;
    const connections = async () => {
      const [row] = await sql`select count(*)::int as count from pg_stat_activity
        where application_name = ${name}`;
      return Number(row!.count);
    };
    const target = `${url}?application_name=${name}`;
    const open = (name: string) => PostgresMailbox.open<string>(target, { schema, name });
    const mailboxes = await Promise.all(["one", "two", "three"].map(open));
    await Promise.all(mailboxes.map((mailbox) => mailbox.receive({ waitTimeMs: 50 })));
    await Promise.all(mailboxes.map((mailbox) => mailbox.deadLetters.send({} as never)));
    const used = await connections();
    assert(
      used > 0 && used <= 5,
      `${used} connections: four at the most, and the one that listens`,
    );
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
    while (await connections() > 0);
    await sql.end();
  });

  it("names that need quoting and ids that cannot be stored are refused", async () => {
    for (const name of ["it's", 'a"b', "a;b", ""]) {
      await assertRejects(
        () => PostgresMailbox.open(url!, { schema, name }),
        TypeError,
      );
      await assertRejects(
        () => PostgresMailbox.open(url!, { schema: name }),
        InvalidParameterError,
      );
    }
    const mailbox = await PostgresMailbox.open(url!, { schema });
    await assertRejects(() => mailbox.send(1, { id: "a\0b" }), TypeError);
    await mailbox.close();
  });

  it("errors contain no credentials", async () => {
    const secret = "hush-hush";
    const bad = [`postgres://me:${secret}@127.0.0.1:1/db`, `postgres://me:${secret}@@/:x`];
    for (const target of [...bad, `mysql://me:${secret}@127.0.0.1/db`]) {
      const error = await assertRejects(() => PostgresMailbox.open(target, { schema }));
      assert(error instanceof MailboxConnectionError || error instanceof InvalidParameterError);
      const all = `${error.message} ${error.stack} ${JSON.stringify(error.cause ?? "")}`;
      assert(!all.includes(secret), all);
    }
  });
});
