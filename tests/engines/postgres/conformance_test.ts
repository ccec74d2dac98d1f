import { after, describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

const schema = ownSchema();
const maxBodyBytes = 4_096;
let lastQueue = 0;

const client = url === undefined ? undefined! : observer();
after(() => client?.end());

/** Opens mailboxes on the URL or the client; a sibling has connections of its own. */
const makeOn = (target: string | SqlClient): MakeMailbox => async (options) => {
  const name = `orders${++lastQueue}`;
  const open = (target: string | SqlClient = url!) =>
    PostgresMailbox.open<unknown>(target, { ...options, name, schema, maxBodyBytes });
  return {
    mailbox: await open(target),
    tickMs: 150,
    pass: realTime,
    sibling: () => open(),
    async sendRaw(body) {
      await client`insert into ${client(schema)}.messages
        (queue, message_id, chosen, body, visible_at)
        values (${name}, ${crypto.randomUUID()}, false, ${body}, '-infinity')`;
    },
    maxBodyBytes,
  };
};

const make = makeOn(url!);

describe("PostgresMailbox", { ...server, concurrency: 4 }, () => {
  hostMailboxCases(make, { engine: "PostgreSQL", together: 4 });

  it("PostgresMailbox skips no conformance case", async () => {
    assertEquals(await skippedMailboxCases(make), []);
  });
});

describe("PostgresMailbox on a client of the caller", { ...server, concurrency: 4 }, () => {
  hostMailboxCases(makeOn(client), { lacks: [], together: 4 });
});
