import { after, describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { deferred } from "../../../src/_promises.ts";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { eventually } from "../_servers.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";

/** Fewer polls than the messages of a test need. */
const seldom = { pollIntervalMs: 10_000 };

const isConfirmation = (statement: string) => statement.includes("set attempts = 1");
const isReceive = (statement: string) => statement.startsWith("with oldest");
const isRegistration = (statement: string) => statement.startsWith("with old as");

/** Resolves when the check throws nothing. */
const until = (check: () => void) => eventually(() => Promise.resolve(check()));

/** What a client hears: only the wake-ups, or nothing. With nothing, its receives find nothing either. */
type Hearing = "all" | "wake-ups" | "nothing";

/** A client that records its statements, and loses or delays what a test wants. */
interface RecordingClient extends SqlClient {
  readonly statements: string[];
  /** How many statements have no answer. */
  pending: number;
  /** The notifications that it heard. */
  readonly heard: string[];
  /** Each call passes on a notification of a handover that the client did not hear. */
  readonly missed: (() => void)[];
  /** How the next confirmation is lost: before it is carried out, or its answer. */
  lost?: "call" | "answer" | undefined;
  /** Runs before the statement is carried out. */
  before?: (statement: string) => Promise<void> | undefined;
  /** Runs before the answer is passed on. */
  after?: (statement: string) => Promise<void> | undefined;
  end(): Promise<void>;
}

describe("a message that is handed over", options, () => {
  const schema = ownSchema();
  const sql = observer();
  after(() => sql.end());

  function recording(hears: Hearing): RecordingClient {
    const client = observer();
    const isDeaf = hears === "nothing";
    return {
      statements: [],
      pending: 0,
      heard: [],
      missed: [],
      unsafe(query, parameters, how) {
        const run = async () => {
          await this.before?.(query);
          const lost = isConfirmation(query) ? this.lost : undefined;
          if (lost !== undefined) this.lost = undefined;
          const skips = lost === "call" || isDeaf && isReceive(query);
          const rows = skips ? [] : await client.unsafe(query, parameters as string[], how);
          if (lost !== undefined) throw new Error("the connection is lost");
          await this.after?.(query);
          return rows;
        };
        this.statements.push(query);
        this.pending++;
        return run().finally(() => this.pending--) as never;
      },
      listen(channel, onNotify, onListen) {
        const miss = (payload: string) => this.missed.push(() => onNotify(payload));
        const isInbox = channel !== `${schema}_wake`;
        const hear = (payload: string) => {
          this.heard.push(payload);
          onNotify(payload);
        };
        const onPayload = hears === "all" || !isInbox && !isDeaf ? hear : isInbox ? miss : () => {};
        return client.listen(channel, onPayload, onListen);
      },
      end: () => client.end(),
    };
  }

  async function waits(name: string): Promise<number> {
    const [row] = await sql`select count(*)::int as count from ${sql(schema)}.waiting
      where queue = ${name} and ends_at > now()`;
    return Number(row!.count);
  }

  /** A mailbox whose receive is registered, and another one that sends. */
  async function waiting(name: string, hears: Hearing = "all") {
    const client = recording(hears);
    const receiver = await PostgresMailbox.open<string>(client, { schema, name, ...seldom });
    const sender = await PostgresMailbox.open<string>(url!, { schema, name, ...seldom });
    const abort = new AbortController();
    // The first receive opens the inbox, and does not wait for that.
    await receiver.receive({ waitTimeMs: 1 });
    const receive = async () => {
      for (;;) {
        const { signal } = abort;
        const messages = await receiver.receive({ waitTimeMs: 60_000, signal });
        if (messages.length > 0 || signal.aborted) return messages;
      }
    };
    const received = receive();
    await eventually(async () => {
      if (await waits(name) === 1 && client.pending === 0) return;
      await receiver.resume(); // lets the receive ask again
      throw new Error("the receive is not registered");
    });
    client.statements.length = 0;
    return {
      receiver,
      sender,
      statements: client.statements,
      client,
      missed: client.missed,
      received,
      abort,
      async [Symbol.asyncDispose]() {
        abort.abort();
        await received;
        await Promise.all([receiver.close(), sender.close()]);
        await client.end();
      },
    };
  }

  /** Two mailboxes like those of {@linkcode waiting}, without a receive. The inbox of the first one is open. */
  async function idle(name: string) {
    const it = await waiting(name);
    it.abort.abort();
    await it.received;
    await eventually(async () => assertEquals(await waits(name), 0));
    it.statements.length = 0;
    return { ...it, abort: new AbortController() };
  }

  it("arrives without a receive, and is confirmed", async () => {
    await using it = await waiting("small");
    await it.sender.send('a "quoted" ü', { headers: { from: "here" } });
    const [message] = await it.received;
    assertEquals([message!.body, message!.deliveryCount], ['a "quoted" ü', 1]);
    assertEquals(message!.headers, { from: "here" });
    assert(Math.abs(Date.now() - message!.enqueuedAt) < 60_000);
    assert(!it.statements.some(isReceive), it.statements.join("\n"));
    await eventually(async () => {
      const [row] = await sql`select attempts, visible_at > now() + interval '1 minute' as held
        from ${sql(schema)}.messages where queue = 'small'`;
      assertEquals({ ...row }, { attempts: 1, held: true });
    });
    await message!.acknowledge();
    assertEquals(await it.sender.approximateCount(), 0);
  });

  it("arrives although it is larger than a notification", async () => {
    await using it = await waiting("large");
    const body = '"\\'.repeat(10_000);
    await it.sender.send(body);
    const [message] = await it.received;
    assertEquals([message!.body, message!.deliveryCount], [body, 1]);
    assert(!it.statements.some(isReceive), it.statements.join("\n"));
    await message!.acknowledge();
  });

  it("is not delivered again while its handler blocks the event loop", async () => {
    await using it = await waiting("blocked");
    const handled = it.received.then(([message]) => {
      const endsAt = performance.now() + 2_200; // longer than the first lease
      while (performance.now() < endsAt);
      return message;
    });
    await it.sender.send("work");
    const message = await handled;
    assertEquals((await it.sender.receive()).length, 0);
    await message!.acknowledge();
    assertEquals(await it.sender.approximateCount(), 0);
  });

  it("has its lease although its confirmation is lost", async () => {
    await using it = await waiting("confirmed");
    it.client.lost = "call";
    await it.sender.send("work");
    const [message] = await it.received;
    await eventually(async () => {
      const [row] = await sql`select attempts, visible_at > now() + interval '1 minute' as held
        from ${sql(schema)}.messages where queue = 'confirmed'`;
      assertEquals({ ...row }, { attempts: 1, held: true });
    });
    await message!.acknowledge();
  });

  it("is delivered once although the answer to its confirmation is lost", async () => {
    await using it = await waiting("answer");
    it.client.lost = "answer";
    await it.sender.send("work");
    const [message] = await it.received;
    assertEquals([message!.body, message!.deliveryCount], ["work", 1]);
    await message!.acknowledge();
  });

  it("is visible again soon when the notification is lost, without an attempt", async () => {
    await using it = await waiting("lost", "nothing");
    await it.sender.send("work");
    assertEquals(await waits("lost"), 0);
    assertEquals((await it.sender.receive()).length, 0);
    const [message] = await it.sender.receive({ waitTimeMs: 60_000 });
    assertEquals([message!.deliveryCount, message!.leaseExpiries], [1, 0]);
    await message!.acknowledge();
  });

  it("is not delivered when it arrives after another process has received it", async () => {
    await using it = await waiting("late", "nothing");
    await it.sender.send("work");
    const [message] = await it.sender.receive({ waitTimeMs: 60_000 });
    for (const hear of it.missed) hear();
    assertEquals(it.missed.length, 1);
    await until(() => assert(it.statements.some(isConfirmation)));
    await message!.acknowledge();
    it.abort.abort();
    assertEquals((await it.received).length, 0);
  });

  it("is visible again at once when the wait ends before it arrives", async () => {
    await using it = await waiting("ended", "nothing");
    await it.sender.send("work");
    it.abort.abort();
    assertEquals((await it.received).length, 0);
    const [message] = await it.sender.receive();
    assertEquals([message!.deliveryCount, message!.leaseExpiries], [1, 0]);
    await message!.acknowledge();
  });

  it("is delivered before a younger message that a receive could find", async () => {
    await using it = await waiting("first", "wake-ups");
    await it.sender.send("first");
    assertEquals(await waits("first"), 0);
    await it.sender.send("second");
    const [first] = await it.received;
    assertEquals([first!.body, first!.deliveryCount], ["first", 1]);
    for (const hear of it.missed) hear(); // too late
    assertEquals(it.missed.length, 1);
    const [second] = await it.receiver.receive();
    assertEquals([second!.body, second!.deliveryCount], ["second", 1]);
    assertEquals(await it.sender.receive(), []);
    await it.receiver.acknowledgeMany([first!, second!]);
  });

  it("is delivered before the next receive, also if that one does not wait", async () => {
    await using it = await waiting("next", "wake-ups");
    await it.sender.send("first");
    assertEquals(await it.receiver.receive(), []);
    const [first] = await it.received;
    assertEquals([first!.body, first!.deliveryCount], ["first", 1]);
    assert(it.statements.some(isConfirmation), it.statements.join("\n"));
    await first!.acknowledge();
  });

  it("is none that is sent while a receive finds an older message", async () => {
    await using it = await waiting("older");
    const [registered] = await sql`select inbox from ${sql(schema)}.waiting where queue = 'older'`;
    const found = deferred();
    const answers = deferred();
    it.client.after = async (statement) => {
      if (!isReceive(statement)) return;
      found.resolve();
      await answers.promise;
    };
    await it.sender.send("first", { key: "a" }); // a message with a key is not handed over
    await found.promise;
    await it.sender.send("second");
    await sql`select pg_notify(${registered!.inbox}, 'last')`; // arrives after a handover
    await until(() => assert(it.client.heard.includes("last") && it.client.pending === 1));
    answers.resolve();
    const [first] = await it.received;
    assertEquals(first!.body, "first");
    const [second] = await it.receiver.receive();
    assertEquals([second!.body, second!.deliveryCount], ["second", 1]);
    await it.receiver.acknowledgeMany([first!, second!]);
  });

  it("is handed to one of two receives with different visibility timeouts", async () => {
    await using it = await idle("two");
    const { signal } = it.abort;
    const continues = deferred();
    let held = 0;
    it.client.before = async (statement) => {
      if (!isRegistration(statement)) return;
      held++;
      await continues.promise;
      held--;
    };
    const both = [30_000, 60_000].map((visibilityTimeoutMs) =>
      it.receiver.receive({ waitTimeMs: 60_000, visibilityTimeoutMs, signal })
    );
    await until(() => assert(held > 0 && held === it.client.pending));
    continues.resolve();
    await until(() => assertEquals(it.client.pending, 0));
    assertEquals(await waits("two"), 1);
    it.abort.abort();
    await Promise.all(both);
    assertEquals(await waits("two"), 0);
  });

  it("is not handed to a receive that ended while it was being registered", async () => {
    await using it = await idle("aborted");
    const registering = deferred();
    const continues = deferred();
    it.client.before = async (statement) => {
      if (!isRegistration(statement)) return;
      registering.resolve();
      await continues.promise;
    };
    const received = it.receiver.receive({ waitTimeMs: 60_000, signal: it.abort.signal });
    await registering.promise;
    it.abort.abort();
    assertEquals(await received, []);
    continues.resolve();
    await until(() => assertEquals(it.client.pending, 0));
    assertEquals(await waits("aborted"), 0);
  });

  it("is not read from a notification that another program has forged", async () => {
    const name = "forged";
    await using it = await waiting(name);
    const [row] = await sql`select receipt::text, inbox from ${sql(schema)}.waiting
      where queue = ${name}`;
    for (const number of ["", "1 2", "-1", "9".repeat(30), '{"number":"1"}']) {
      await sql`select pg_notify(${row!.inbox}, ${`${name} ${row!.receipt} ${number}`})`;
    }
    await it.sender.send("work");
    const [message] = await it.received;
    assertEquals([message!.body, message!.deliveryCount], ["work", 1]);
    assertEquals(it.statements.filter(isConfirmation).length, 1);
    await message!.acknowledge();
  });

  it("keeps its attempt in every settlement", async () => {
    for (const settle of ["nack", "release"] as const) {
      await using it = await waiting(settle);
      await it.sender.send("work");
      const [message] = await it.received;
      await message![settle]();
      const [again] = await it.sender.receive({ waitTimeMs: 60_000 });
      assertEquals(again!.deliveryCount, settle === "nack" ? 2 : 1);
    }
  });

  it("is one that a receive would deliver", async () => {
    const name = "order";
    const inTurn = async (use: (mailbox: PostgresMailbox<string>) => Promise<unknown>) => {
      // A new one each time, because a send that finds no wait does not look for one for a while.
      const mailbox = await PostgresMailbox.open<string>(url!, { schema, name });
      await use(mailbox);
      await mailbox.close();
      return await waits(name);
    };
    const remaining = [
      await inTurn(() =>
        sql`insert into ${sql(schema)}.waiting (receipt, queue, inbox, ends_at)
          values (1, ${name}, 'inbox', now() + interval '1 hour')`
      ),
      await inTurn((mailbox) => mailbox.send("delayed", { delayMs: 3_600_000 })),
      await inTurn((mailbox) => mailbox.send("with a key", { key: "a" })),
      await inTurn((mailbox) => mailbox.send("behind another one")),
      await inTurn(async (mailbox) => {
        await mailbox.purge();
        await mailbox.pause();
        await mailbox.send("paused");
      }),
      await inTurn(async (mailbox) => {
        await mailbox.purge();
        await mailbox.resume();
        await mailbox.rateLimit({ max: 1, perMs: 1_000 });
        await mailbox.send("limited");
      }),
      await inTurn(async (mailbox) => {
        await mailbox.purge();
        await mailbox.rateLimit(false);
        await mailbox.send("deliverable");
      }),
    ];
    assertEquals(remaining, [1, 1, 1, 1, 1, 1, 0]);
  });

  it("has no attempt when its process dies before it is confirmed", async () => {
    const mailbox = await PostgresMailbox.open<string>(url!, { schema, name: "dead" });
    const [owner] = await sql`insert into ${sql(schema)}.owners (pid, backend_start, server_start)
      values (2147483647, now(), pg_postmaster_start_time()) returning number::text`;
    await mailbox.send("work");
    await sql`update ${sql(schema)}.messages set visible_at = now() + interval '1 hour',
      receipt = ${`${BigInt(owner!.number) * 2n ** 32n + 1n}`} where queue = 'dead'`;
    await sql`select * from ${sql(schema)}.expire_owner(${owner!.number})`;
    const [message] = await mailbox.receive();
    assertEquals([message!.deliveryCount, message!.leaseExpiries], [1, 0]);
    await mailbox.close();
  });

  it("is not handed to a worker that died, whose registration the next wait removes", async () => {
    const name = "old";
    await sql`insert into ${sql(schema)}.waiting (receipt, queue, inbox, ends_at) values
      (1001, ${name}, 'inbox', now() - interval '1 second'),
      (1002, ${name}, 'inbox', now() - interval '2 minutes')`;
    const mailbox = await PostgresMailbox.open<string>(url!, { schema, name });
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    assertEquals(message!.deliveryCount, 1);
    await message!.acknowledge();
    await using _ = await waiting(name);
    const left = await sql`select receipt::text from ${sql(schema)}.waiting
      where queue = ${name} and ends_at < now()`;
    assertEquals(left.map(({ receipt }) => receipt), ["1001"]);
    await mailbox.close();
  });
});
