import { after, describe, it } from "node:test";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";

describe("the schema of a PostgresMailbox", options, () => {
  const sql = url === undefined ? undefined! : observer();
  after(() => sql?.end());

  const tables = async (schema: string) => {
    const rows = await sql`select tablename from pg_tables where schemaname = ${schema} order by 1`;
    return rows.map(({ tablename }) => tablename);
  };

  it("mailboxes that open at the same time create the schema once", async () => {
    const schema = ownSchema();
    const clients = Array.from({ length: 6 }, () => observer());
    const open = (target: string | ReturnType<typeof observer>) =>
      PostgresMailbox.open<number>(target, { schema });
    const mailboxes = await Promise.all([...clients, url!, url!].map(open));
    await Promise.all(mailboxes.map((mailbox, i) => mailbox.send(i)));
    assertEquals(await mailboxes[0]!.approximateCount(), 8);
    assertEquals(await tables(schema), [
      "controls",
      "messages",
      "migrations",
      "owners",
      "remembered",
      "waiting",
    ]);
    const versions = await sql`select version from ${sql(schema)}.migrations`;
    assertEquals(versions.map(({ version }) => version), [1, 2, 3, 4, 5, 6]);
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
    await Promise.all(clients.map((client) => client.end()));
  });

  it("a newer schema is refused and not changed", async () => {
    const schema = ownSchema();
    await (await PostgresMailbox.open(url!, { schema })).close();
    await sql`insert into ${sql(schema)}.migrations (version) values (99)`;
    for (const migrate of [true, false]) {
      const error = await assertRejects(
        () => PostgresMailbox.open(url!, { schema, migrate }),
        MailboxConnectionError,
      );
      assertStringIncludes(error.message, "has version 99 and this package knows 6");
    }
    const [last] = await sql`select max(version) as version from ${sql(schema)}.migrations`;
    assertEquals(last?.version, 99);
  });

  it("`migrate: false` only checks the schema", async () => {
    const schema = ownSchema();
    const error = await assertRejects(
      () => PostgresMailbox.open(url!, { schema, migrate: false }),
      MailboxConnectionError,
    );
    assertStringIncludes(error.message, "has version 0 and this package needs 6");
    assertEquals(await tables(schema), []);
    await (await PostgresMailbox.open(url!, { schema })).close();
    await (await PostgresMailbox.open(url!, { schema, migrate: false })).close();
  });

  it("a schema with a table of another program is not changed", async () => {
    const schema = ownSchema();
    await sql`create schema ${sql(schema)}`;
    await sql`create table ${sql(schema)}.messages (mine text)`;
    const error = await assertRejects(
      () => PostgresMailbox.open(url!, { schema }),
      MailboxConnectionError,
    );
    assertStringIncludes(error.message, "choose another one");
    assertEquals(await tables(schema), ["messages"]);
  });
});
