// Senders and workers on connections of their own do random things to messages with keys. A run takes a fresh
// seed and prints it; LASTCALL_SEED=<number> makes the same choices again.

import { after, describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type postgres from "postgres";
import { systemClock } from "../../../src/clock.ts";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { storeParameters } from "../../../src/engines/postgres/_sends.ts";
import { statementsFor } from "../../../src/engines/postgres/_statements.ts";
import type { Mailbox, Message } from "../../../src/mailbox/mailbox.ts";
import { seededRandom } from "../../../src/random.ts";
import { seed } from "../../_seed.ts";
import { eventually } from "../_servers.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

const SENDERS = 3;
const WORKERS = 4;
const KEYS = 2;
const SENDS = 60;
const LEASE_MS = 60_000;

interface Job {
  readonly key: string;
  readonly sender: number;
  /** Counts the messages of a sender; undefined for a delayed one, which joins its key later. */
  readonly turn: number | undefined;
}

/** Thrown to roll a transaction back. */
class Rollback extends Error {}

/** What has happened to the messages so far. */
class Ledger {
  /** The ids of messages that are stored and not removed. */
  readonly left = new Set<string>();
  /** The ids that senders have cancelled, perhaps in flight: then the next of the key may be received. */
  readonly cancelled = new Set<string>();
  readonly #inversions: string[] = [];
  readonly #overlaps: (readonly [id: string, other: string])[] = [];
  readonly #held = new Map<string, string>();
  readonly #turns = new Map<string, number>();

  get faults(): readonly string[] {
    const overlaps = this.#overlaps.filter(([, other]) => !this.cancelled.has(other));
    return [
      ...overlaps.map(([id, other]) => `${id} and ${other} were in flight`),
      ...this.#inversions,
    ];
  }

  hold({ id, body: { key } }: Message<Job>): void {
    const other = this.#held.get(key);
    if (other !== undefined) this.#overlaps.push([id, other]);
    this.#held.set(key, id);
  }

  /** Called before a call that may let another worker receive the next message of the key. */
  letGo({ body: { key } }: Message<Job>): void {
    this.#held.delete(key);
  }

  handled({ id, body: { key, sender, turn } }: Message<Job>): void {
    this.left.delete(id);
    const line = `${key} of sender ${sender}`;
    const last = this.#turns.get(line) ?? -1;
    if (turn === undefined) return;
    if (turn < last) this.#inversions.push(`${turn} was handled after ${last}, ${line}`);
    this.#turns.set(line, turn);
  }
}

describe("messages with keys, from several connections", server, () => {
  const clients: postgres.Sql[] = [];
  after(() => Promise.all(clients.map((client) => client.end())));

  it("a duplicate at the head of a batch does not block the others with its key", async () => {
    await using mailbox = await PostgresMailbox.open<string>(url!, { schema: ownSchema() });
    await mailbox.send("stored", { id: "same", key: "b" });
    const sent = await mailbox.sendMany(["again", "a1", "a2"], (body) => {
      return body === "again" ? { id: "same", key: "a" } : { key: "a" };
    });
    assertEquals(sent.map(({ stored }) => stored), [false, true, true]);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), ["stored", "a1"]);
  });

  it("a message that is sent behind a purged one is received", async () => {
    const schema = ownSchema();
    await using mailbox = await PostgresMailbox.open<string>(url!, { schema, name: "purged" });
    await mailbox.send("a1", { key: "a" });
    const client = observer();
    clients.push(client);
    let purging: Promise<number> | undefined;
    await client.begin(async (sender) => {
      const entry = { id: "2", body: '"a2"', delayMs: 0, dedup: false, key: "a" };
      const parameters = storeParameters("purged", [entry], Infinity);
      await sender.unsafe(statementsFor(schema).store, parameters);
      purging = mailbox.purge(); // it does not see the second message
      await eventually(async () => assertEquals(await mailbox.approximateCount(), 0));
    });
    assertEquals(await purging, 1);
    assertEquals((await mailbox.receive())[0]?.body, "a2");
  });

  it("a key may be longer than an entry of an index", async () => {
    await using mailbox = await PostgresMailbox.open<string>(url!, { schema: ownSchema() });
    const random = seededRandom(seed);
    const key = Array.from({ length: 500 }, () => random.id()).join("");
    await mailbox.sendMany(["first", "second"], { key });
    for (const body of ["first", "second"]) {
      const [message, other] = await mailbox.receive({ maxMessages: 2 });
      assertEquals([message?.body, message?.key, other], [body, key, undefined]);
      await message!.acknowledge();
    }
  });

  it(`the messages of a key are handled one at a time and in order (seed ${seed})`, async () => {
    const schema = ownSchema();
    const ledger = new Ledger();
    const open = async () => {
      const client = observer();
      clients.push(client);
      const mailbox = await PostgresMailbox.open<Job>(client, { schema, name: "jobs" });
      return { client, mailbox };
    };
    const actors = await Promise.all(Array.from({ length: SENDERS + WORKERS }, open));
    const watcher = actors[0]!.mailbox;
    const choices = (actor: number) => {
      const random = seededRandom(seed + actor);
      return (limit: number) => Math.floor(random.number() * limit);
    };
    let sending = SENDERS;

    const send = async (sender: number) => {
      const { client, mailbox } = actors[sender]!;
      const below = choices(sender);
      for (let turn = 0; turn < SENDS; turn++) {
        const key = `key ${below(KEYS)}`;
        const delayMs = below(8) === 0 ? 1 + below(20) : 0;
        const job: Job = { key, sender, turn: delayMs > 0 ? undefined : turn };
        const id = `${sender}-${turn}`;
        const sendOptions = { id, key, delayMs, priority: below(10), dedupMs: LEASE_MS };
        // Registered before the send: a worker may handle it before the sender hears of it.
        ledger.left.add(id);
        const store = async (to: Pick<Mailbox<Job>, "send">) => {
          await to.send(job, sendOptions);
          if (below(4) === 0) assert(!(await to.send(job, sendOptions)).stored, "a duplicate");
        };
        if (below(3) > 0) await store(mailbox);
        else {
          const isKept = below(3) > 0;
          await client.begin(async (sql) => {
            await store(mailbox.withTransaction(sql) as Pick<Mailbox<Job>, "send">);
            if (!isKept) throw new Rollback();
          }).catch(rolledBack);
          if (!isKept) ledger.left.delete(id);
        }
        if (below(10) === 0) {
          const other = `${below(SENDERS)}-${below(SENDS)}`;
          if (await mailbox.cancel(other)) {
            ledger.cancelled.add(other);
            ledger.left.delete(other);
          }
        }
      }
      sending--;
    };

    const work = async (worker: number) => {
      const { client, mailbox } = actors[worker]!;
      const below = choices(worker);
      const isDone = () => sending === 0 && ledger.left.size === 0;
      for (const endsAt = systemClock.monotonic() + 30_000; !isDone();) {
        if (systemClock.monotonic() > endsAt) return; // what is left is a fault
        const messages = await mailbox.receive({
          maxMessages: 1 + below(4),
          visibilityTimeoutMs: LEASE_MS,
          waitTimeMs: 100,
        });
        for (const message of messages) ledger.hold(message);
        for (const message of messages) await settle(client, mailbox, message, below);
      }
    };

    const settle = async (
      client: postgres.Sql,
      mailbox: PostgresMailbox<Job>,
      message: Message<Job>,
      below: (limit: number) => number,
    ) => {
      const acknowledgeIn = (sql: unknown) => message.withTransaction(sql).acknowledge();
      ledger.letGo(message);
      try {
        switch (below(8)) {
          case 0:
            return await message.release();
          case 1:
            return await message.nack({ delayMs: below(10), countsAttempt: below(2) === 0 });
          case 2:
            ledger.handled(message);
            return await message.deadLetter({ reason: "test" });
          case 3:
            ledger.handled(message);
            return void await mailbox.cancel(message.id);
          case 4: {
            let isKept = false;
            await client.begin(async (sql) => {
              await acknowledgeIn(sql);
              isKept = below(2) === 0;
              if (!isKept) throw new Rollback();
              // In the transaction: the next message of the key may be handled right after the commit.
              ledger.handled(message);
            }).catch(rolledBack);
            return isKept ? undefined : await message.release();
          }
          default:
            ledger.handled(message);
            await message.acknowledge();
        }
      } catch (error) {
        // A sender may have cancelled it meanwhile.
        if (!/visibility timeout has passed/.test(String(error))) throw error;
        ledger.left.delete(message.id);
      }
    };

    const senders = Array.from({ length: SENDERS }, (_, i) => send(i));
    const workers = Array.from({ length: WORKERS }, (_, i) => work(SENDERS + i));
    await Promise.all([...senders, ...workers]);
    assertEquals(ledger.faults, []);
    assertEquals([...ledger.left], [], "they are stuck");
    assertEquals(await watcher.approximateCount(), 0);
    assertEquals(await watcher.receive(), [], "it unblocks the keys of the last transactions");
    const [left] = await clients[0]!.unsafe(
      `select count(*)::int as count from "${schema}".controls`,
    );
    assertEquals(left?.count, 0, "no row of a key is left");
    await Promise.all(actors.map(({ mailbox }) => mailbox.close()));
  });
});

function rolledBack(error: unknown): void {
  if (!(error instanceof Rollback)) throw error;
}
