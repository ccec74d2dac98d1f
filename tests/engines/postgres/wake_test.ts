import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { serverOf } from "../../../src/engines/postgres/client.ts";
import { WakeUps } from "../../../src/engines/postgres/_wake_ups.ts";
import { silentLog } from "../../../src/log.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { observer, options, ownSchema, url } from "./_shared.ts";

/** So seldom that it never helps a test. */
const never = { pollIntervalMs: 3_600_000 };

describe("a waiting receiver", options, () => {
  const schema = ownSchema();

  it("a send or a deliverNow through another connection wakes a receiver", async () => {
    const sql = observer();
    const listening = async () => {
      const [row] = await sql`select count(*)::int as count from pg_stat_activity
        where query ilike ${`listen%${schema}_wake%`}`;
      return Number(row!.count);
    };
    const here = await PostgresMailbox.open<string>(url!, { schema, ...never });
    const there = await PostgresMailbox.open<string>(sql, { schema });
    const received = here.receive({ waitTimeMs: 3_600_000 });
    while (await listening() === 0);
    await there.send("from afar");
    assertEquals((await received).map(({ body }) => body), ["from afar"]);
    const delayed = here.receive({ waitTimeMs: 3_600_000 });
    await there.send("later", { delayMs: 100 });
    assertEquals((await delayed).map(({ body }) => body), ["later"]);
    await here.purge(); // while messages are in flight, a receive asks once a second
    const { id } = await there.send("much later", { delayMs: 3_600_000 });
    const early = here.receive({ waitTimeMs: 3_600_000 });
    for (let i = 0; i < 10; i++) await here.stats(); // by then the receive has found nothing
    await there.deliverNow(id);
    assertEquals((await early).map(({ body }) => body), ["much later"]);
    await here.close();
    while (await listening() > 0);
    await there.close();
    await sql.end();
  });

  it("a process listens again when its own notifications do not come back", async () => {
    const clock = new VirtualClock();
    const events: string[] = [];
    const deaf: SqlClient = {
      unsafe: () => Promise.resolve([]),
      listen() {
        events.push("listen");
        return Promise.resolve({
          unlisten: () => Promise.resolve(void events.push("unlisten")),
        });
      },
    };
    const notify = () => Promise.resolve(events.push("notify"));
    const wakeUps = new WakeUps(serverOf(deaf, 1_000), "channel", clock, silentLog, notify);
    wakeUps.add("orders", () => {});
    await clock.advance(15_000);
    assertEquals(events, ["listen", "notify"]);
    await clock.advance(15_000);
    assertEquals(events, ["listen", "notify", "listen", "notify", "unlisten"]);
    await wakeUps.close();
    assertEquals(clock.pending, 0);
  });

  it("the connection of an owner stays open without receivers, and tells its pid again", async () => {
    const clock = new VirtualClock();
    const events: string[] = [];
    let pid = 1;
    let onListen = () => {};
    const client: SqlClient = {
      unsafe: () => Promise.resolve([]),
      listen(_channel, _onNotify, listener) {
        if (listener !== undefined) onListen = listener;
        const unlisten = () => Promise.resolve(void events.push("unlisten"));
        return Promise.resolve({ state: { pid }, unlisten });
      },
    };
    const wakeUps = new WakeUps(serverOf(client, 1_000), "c", clock, silentLog, async () => {});
    const remove = wakeUps.add("orders", () => {});
    const pids: unknown[] = [];
    const detach = wakeUps.keep((pid) => pids.push(pid));
    remove();
    await clock.advance(10_000);
    assertEquals(pids, [1]);
    pid = 2; // it reconnects
    onListen();
    await clock.advance(0);
    assertEquals(pids, [1, 2]);
    events.length = 0;
    detach();
    await clock.advance(5_000);
    assertEquals(events, ["unlisten"]);
    assertEquals(clock.pending, 0);
  });

  it("a send and a release of another mailbox in this process wake a receiver", async () => {
    const options = { schema, name: "shared", ...never };
    const [one, two] = await Promise.all([
      PostgresMailbox.open<string>(url!, options),
      PostgresMailbox.open<string>(url!, options),
    ]);
    const first = one!.receive({ waitTimeMs: 3_600_000 });
    await two!.send("work");
    const [message] = await first;
    const second = two!.receive({ waitTimeMs: 3_600_000 });
    await message!.release();
    assertEquals((await second)[0]?.deliveryCount, 1);
    await Promise.all([one!.close(), two!.close()]);
  });

  it("a receiver finds a message without a notification by polling", async () => {
    const sql = observer();
    const mailbox = await PostgresMailbox.open<string>(url!, {
      schema,
      name: "quiet",
      pollIntervalMs: 50,
    });
    const received = mailbox.receive({ waitTimeMs: 3_600_000 });
    await sql`insert into ${sql(schema)}.messages (queue, message_id, chosen, body, visible_at)
      values ('quiet', 'one', false, '"work"', '-infinity')`;
    assertEquals((await received)[0]?.body, "work");
    await mailbox.close();
    await sql.end();
  });
});
