import { after, before, describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import type { LeaseOptions } from "../../src/lease/lease_extender.ts";
import { cleanUp, gate, uniqueName, url } from "../engines/redis/_redis.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

/**
 * How often the message was delivered until a handler had ended that blocks the event loop for three
 * lease times, and how many messages its loop has acknowledged.
 */
async function deliveries(mailboxUrl: string, lease: LeaseOptions = {}): Promise<string> {
  await using mailbox = await openMailbox<string>(mailboxUrl);
  await mailbox.send("tea");
  await using child = Child.start("../../lease/fixtures/blocked", {
    args: [mailboxUrl, JSON.stringify(lease)],
  });
  await child.line("blocked");
  const ended = new AbortController();
  const stolen = mailbox.receive({ waitTimeMs: 20_000, signal: ended.signal });
  const { stdout, stderr } = await child.exit();
  ended.abort();
  const count = 1 + (await stolen).length;
  return `${count}, ${/acknowledged \d/.exec(stdout)?.[0] ?? stderr}`;
}

describe("a handler that blocks the event loop for three lease times", () => {
  const folder = new TempFolder();
  const queue = uniqueName();
  const schema = postgres.ownSchema();
  const file = (name: string) => `sqlite:${folder.file(name)}`;
  let results: Readonly<Record<string, Promise<string>>>;

  // All at once: each takes as long as three leases.
  before(() => {
    results = {
      sqlite: deliveries(file("kept.db")),
      alone: deliveries(file("alone.db"), { offThread: false }),
      lifeless: deliveries(file("lifeless.db"), { beatWithinMs: 1_000 }),
      ...(gate.skip ? {} : { redis: deliveries(`${url}?queue=${queue}`) }),
      ...(postgres.url ? { postgres: deliveries(`${postgres.url}?schema=${schema}`) } : {}),
    };
  });
  after(async () => {
    await Promise.allSettled(Object.values(results));
    folder[Symbol.dispose]();
    if (!gate.skip) await cleanUp(queue);
  });

  it("a handler that blocks the event loop keeps its message on SQLite", async () => {
    assertEquals(await results["sqlite"], "1, acknowledged 1");
  });

  it("a handler that blocks the event loop keeps its message on Redis", gate, async () => {
    assertEquals(await results["redis"], "1, acknowledged 1");
  });

  it(
    "a handler that blocks the event loop keeps its message on PostgreSQL",
    postgres.options,
    async () => {
      assertEquals(await results["postgres"], "1, acknowledged 1");
    },
  );

  it("a handler that blocks the event loop loses its message without the other thread", async () => {
    assertEquals(await results["alone"], "2, acknowledged 0");
  });

  it("a handler that blocks the event loop loses its message when only heartbeats extend its lease", async () => {
    assertEquals(await results["lifeless"], "2, acknowledged 0");
  });
});
