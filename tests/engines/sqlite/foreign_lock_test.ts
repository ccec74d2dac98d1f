import { describe, it } from "node:test";
import { assertEquals, assertGreater, assertRejects } from "@std/assert";
import { nodeSqlite, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxLoop } from "../../../src/loops/mailbox_loop.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { TempFolder } from "./_folder.ts";

const COUNT = 30;

describe("a loop on a SQLite file that another program has locked for 12 s", () => {
  it("a loop on a locked file is not ready, then continues and handles each message once", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    const options = { clock, log: silentLog };
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), options);
    const holder = await nodeSqlite(folder.file());
    const handled: number[] = [];
    const loop = new MailboxLoop<number>({
      ...options,
      mailbox,
      concurrency: 2,
      handler: async ({ body }) => {
        await clock.sleep(10);
        handled.push(body);
      },
    });
    const run = loop.run();
    await mailbox.sendMany(Array.from({ length: COUNT }, (_, i) => i));
    while (handled.length < 3) await clock.advance(5);

    holder.exec("BEGIN IMMEDIATE");
    const refused = mailbox.send(-1);
    let isRefused = false;
    const refusal = assertRejects(() => refused, MailboxConnectionError, "find and end it");
    refusal.then(() => isRefused = true);
    let unreadyMs = 0;
    for (let ms = 0; ms < 12_000; ms += 200) {
      await clock.advance(200);
      if (!loop.ready) unreadyMs += 200;
    }
    const refusedInTime = isRefused;
    const patient = mailbox.send(COUNT);
    await clock.advance(100);
    holder.exec("COMMIT");
    holder.close();
    await clock.until(patient);
    while (handled.length <= COUNT) await clock.advance(100);
    await clock.until(loop.shutdown());
    await run;

    assertEquals(refusedInTime, true);
    assertGreater(unreadyMs, 5_000, "from the first call that gave up");
    assertEquals(handled.toSorted((a, b) => a - b), Array.from({ length: COUNT + 1 }, (_, i) => i));
    assertEquals(loop.counts, {
      ...{ received: COUNT + 1, acknowledged: COUNT + 1 },
      ...{ released: 0, nacked: 0, deadLettered: 0, cancelled: 0, leftToExpire: 0 },
    });
    assertEquals(await mailbox.approximateCount(), 0);
  });
});
