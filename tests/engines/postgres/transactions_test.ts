import { after, before, describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { PostgresMailbox, type PostgresMailboxOptions } from "../../../src/engines/postgres/mod.ts";
import { MailboxLoop } from "../../../src/loops/mailbox_loop.ts";
import { InvalidParameterError, MailboxFullError } from "../../../src/mailbox/errors.ts";
import { type Client, CLIENTS } from "./_clients.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

/** So seldom that it never helps a test. */
const never = { pollIntervalMs: 600_000 };

/** Thrown to roll a transaction back. */
class Rollback extends Error {}

describe("transactions of the caller", server, () => {
  const schema = ownSchema();
  let lastQueue = 0;
  const sql = url === undefined ? undefined! : observer();
  before(async () => {
    if (url !== undefined) {
      await sql.unsafe(`create schema "${schema}"; create table "${schema}".effects (id text)`);
    }
  });
  after(() => sql?.end());

  const open = (options: PostgresMailboxOptions = {}) =>
    PostgresMailbox.open<string>(url!, { schema, name: `orders${++lastQueue}`, ...options });
  const effect = (id: string) => `insert into "${schema}".effects values ('${id}')`;
  const effects = async (id: string) => {
    const rows = await sql.unsafe(`select from "${schema}".effects where id = '${id}'`);
    return rows.length;
  };
  /** Runs `act` in a transaction that is rolled back. */
  const rolledBack = (client: Client, act: Parameters<Client["transaction"]>[0]) =>
    assertRejects(() =>
      client.transaction(async (transaction) => {
        await act(transaction);
        throw new Rollback();
      }), Rollback);

  for (const [name, connect] of Object.entries(CLIENTS)) {
    describe(name, () => {
      let client: Client;
      before(() => void (client = connect(url!)));
      after(() => client?.[Symbol.asyncDispose]());

      it(`${name}: a message is stored and received when its transaction is committed`, async () => {
        await using mailbox = await open();
        await client.transaction(async ({ tx, run }) => {
          await run(effect(mailbox.name));
          const orders = mailbox.withTransaction(tx);
          const options = { id: "a", headers: { tenant: "acme" }, priority: 2 };
          assertEquals(await orders.send("sent", options), { id: "a", stored: true });
          assertEquals((await orders.send("again", options)).stored, false);
          assertEquals((await orders.sendMany(["many 1", "many 2"])).length, 2);
          assertEquals(await mailbox.approximateCount(), 0, "other connections see nothing yet");
        });
        const messages = await mailbox.receive({ maxMessages: 10 });
        assertEquals(messages.map(({ body }) => body), ["sent", "many 1", "many 2"]);
        assertEquals(messages[0]!.headers, { tenant: "acme" });
        assertEquals(await effects(mailbox.name), 1);
      });

      it(`${name}: a rollback stores nothing`, async () => {
        await using mailbox = await open();
        const options = { id: "a", dedupMs: 600_000, key: "k" };
        await rolledBack(client, async ({ tx, run }) => {
          await run(effect(mailbox.name));
          await mailbox.withTransaction(tx).send("never", options);
        });
        assertEquals([await mailbox.approximateCount(), await effects(mailbox.name)], [0, 0]);
        assert((await mailbox.send("now", options)).stored, "the id is not remembered");
        assertEquals((await mailbox.receive())[0]?.body, "now");
      });

      it(`${name}: a message is acknowledged with what its handler wrote`, async () => {
        await using mailbox = await open();
        await mailbox.sendMany(["a", "b"], { key: "k" });
        const [message] = await mailbox.receive();
        await client.transaction(async ({ tx, run }) => {
          await run(effect(mailbox.name));
          await message!.withTransaction(tx).acknowledge();
        });
        assertEquals(await mailbox.approximateCount(), 1);
        assertEquals(await effects(mailbox.name), 1);
        await message!.acknowledge(); // it was, and stays so
        assertEquals((await mailbox.receive())[0]?.body, "b", "the key is unblocked");
      });

      it(`${name}: a rollback leaves the message with its worker`, async () => {
        await using mailbox = await open();
        await mailbox.send("work", { key: "k" });
        const [message] = await mailbox.receive();
        await rolledBack(client, async ({ tx, run }) => {
          await run(effect(mailbox.name));
          await message!.withTransaction(tx).acknowledge();
        });
        assertEquals(await effects(mailbox.name), 0);
        assertEquals((await mailbox.get(message!.id))?.state, "inFlight");
        await message!.release();
        assertEquals((await mailbox.receive())[0]?.deliveryCount, 1);
      });

      it(`${name}: a stale acknowledgement fails, and the transaction can go on`, async () => {
        await using mailbox = await open();
        await mailbox.send("work");
        const [message] = await mailbox.receive();
        await mailbox.cancel(message!.id);
        await client.transaction(async ({ tx, run }) => {
          await assertRejects(
            () => message!.withTransaction(tx).acknowledge(),
            Error,
            "visibility timeout",
          );
          await run(effect(mailbox.name));
        });
        assertEquals(await effects(mailbox.name), 1);
      });

      it(`${name}: the commit wakes an idle worker`, async () => {
        const queue = `orders${++lastQueue}`;
        await using worker = await open({ ...never, name: queue });
        await using sender = await open({ maxConnections: 1, name: queue });
        const handled: string[] = [];
        let tell = () => {};
        const loop = new MailboxLoop<string>({
          mailbox: worker,
          concurrency: 1,
          waitTimeMs: 600_000,
          handler: ({ body }) => {
            handled.push(body);
            tell();
          },
        });
        const running = loop.run();
        const next = () => new Promise<void>((resolve) => tell = resolve);
        // After this one the worker listens, and waits for the next.
        let hearing = next();
        await sender.send("first");
        await hearing;
        hearing = next();
        await client.transaction(async ({ tx }) => {
          await sender.withTransaction(tx).send("second", { key: "k" });
        });
        await hearing;
        assertEquals(handled, ["first", "second"]);
        await loop.shutdown();
        await running;
      });

      it(`${name}: the client outside of a transaction is refused`, async () => {
        await using mailbox = await open();
        await client.transaction(() => Promise.resolve()); // it is connected
        const error = assertThrows(
          () => mailbox.withTransaction(client.outside),
          InvalidParameterError,
        );
        assertStringIncludes(error.message, "Invalid transaction: ");
      });
    });
  }

  it("an object of an unknown kind is refused, and the error names what is accepted", async () => {
    await using mailbox = await open();
    for (const tx of [undefined, null, 7, "begin", {}, { query: 1 }, () => {}]) {
      const error = assertThrows(() => mailbox.withTransaction(tx), InvalidParameterError);
      for (const kind of ["postgres.js", "pg", "Drizzle", "Kysely"]) {
        assertStringIncludes(error.message, kind);
      }
    }
  });

  it("a full queue refuses the send, and the transaction can go on", async () => {
    await using client = CLIENTS["postgres.js"]!(url!);
    await using mailbox = await open({ maxSize: 2 });
    await mailbox.send("stored");
    await client.transaction(async ({ tx }) => {
      const orders = mailbox.withTransaction(tx);
      const dedup = { id: "a", dedupMs: 600_000 };
      await assertRejects(
        () => orders.sendMany(["1", "2"], (_, i) => ({ ...dedup, id: `${i}` })),
        MailboxFullError,
      );
      assert((await orders.send("fits", { ...dedup, id: "0" })).stored, "nothing was remembered");
    });
    assertEquals(await mailbox.approximateCount(), 2);
  });

  it("an open transaction delays neither other senders of its keys nor the leases of others", async () => {
    await using client = CLIENTS["postgres.js"]!(url!);
    await using mailbox = await open({ callTimeoutMs: 2_000 });
    await mailbox.sendMany(["a1", "b1"], (body) => ({ key: String(body)[0]! }));
    const messages = await mailbox.receive({ maxMessages: 2 });
    await client.transaction(async ({ tx }) => {
      await messages[0]!.withTransaction(tx).acknowledge();
      await mailbox.withTransaction(tx).send("a2", { key: "a" });
      // All of these would wait for the commit if the transaction had the lock of a key, or its row.
      await mailbox.send("a3", { key: "a" });
      assertEquals(await mailbox.extendMany(messages, 60_000), [true, true]);
      await messages[1]!.acknowledge();
    });
    const received: string[] = [];
    for (let i = 0; i < 2; i++) {
      const [message] = await mailbox.receive({ maxMessages: 2 });
      received.push(message!.body);
      await message!.acknowledge();
    }
    assertEquals(received.sort(), ["a2", "a3"]);
  });

  it("a transaction with a fixed snapshot unblocks a key behind which another process has sent", async () => {
    await using mailbox = await open();
    await mailbox.send("a1", { key: "a" });
    const [first] = await mailbox.receive();
    await sql.begin("isolation level repeatable read", async (tx) => {
      await tx`select 1`;
      await mailbox.send("a2", { key: "a" });
      await first!.withTransaction(tx).acknowledge();
    });
    assertEquals((await mailbox.receive())[0]?.body, "a2");
  });
});
