import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

const schema = ownSchema();
const maxBodyBytes = 4_096;
let lastQueue = 0;

const make: MakeMailbox = async (options) => {
  const name = `orders${++lastQueue}`;
  const open = () =>
    PostgresMailbox.open<unknown>(url!, { ...options, name, schema, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 150,
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const sql = observer();
      await sql`insert into ${sql(schema)}.messages (queue, message_id, chosen, body, visible_at)
        values (${name}, ${crypto.randomUUID()}, false, ${body}, '-infinity')`;
      await sql.end();
    },
    maxBodyBytes,
  };
};

describe("PostgresMailbox", { ...server, concurrency: 4 }, () => {
  hostMailboxCases(make, { engine: "PostgreSQL", together: 4 });

  it("PostgresMailbox skips no conformance case", async () => {
    assertEquals(await skippedMailboxCases(make), []);
  });
});
