import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { healthApp, type History } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

async function historyOf(app: ReturnType<typeof healthApp>): Promise<History> {
  const response = await app.request("/history");
  assertEquals([response.status, response.headers.get("cache-control")], [200, "no-store"]);
  return await response.json();
}

const EVERY_MS = 15_000;

describe("the history of a group", () => {
  it("/history has a sample for every 15 s, without a client", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    assertEquals((await historyOf(app)).perSecond, []);
    await fixture.start();
    await fixture.mailbox.sendMany(["a", "b", "c", "d", "e", "f"]);
    await fixture.clock.advance(EVERY_MS);
    fixture.work.resolve();
    await fixture.clock.advance(EVERY_MS);
    await fixture.mailbox.sendMany(["g", "h", "i"]);
    await fixture.clock.advance(EVERY_MS);
    const { clock } = fixture;
    const { at, ...history } = await historyOf(app);
    assert(clock.now() - at < 100, `the last sample is of now, not ${clock.now() - at} ms ago`);
    assertEquals(history, {
      everyMs: EVERY_MS,
      perSecond: [0, 0.4, 0.2],
      mailboxes: { jobs: { waiting: [2, 0, 0], inFlight: [4, 0, 0] } },
    });
    await fixture.stop();
  });

  it("/history keeps one hour", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    await fixture.start();
    await fixture.mailbox.sendMany(Array.from({ length: 9 }, (_, i) => `${i}`));
    await fixture.clock.advance(EVERY_MS * 241);
    await fixture.mailbox.send("the last");
    await fixture.clock.advance(EVERY_MS);
    const { perSecond, mailboxes } = await historyOf(app);
    assertEquals([perSecond.length, mailboxes["jobs"]?.waiting.length], [240, 240]);
    assertEquals(mailboxes["jobs"]?.waiting.slice(-3), [5, 5, 6], "the oldest first");
    await fixture.stop();
  });

  it("the history starts and stops with the group and leaves no timer", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    const { clock } = fixture;
    assertEquals(clock.pending, 0, "before the start");
    await fixture.start();
    const late = fixture.app(); // mounted while the group runs
    await clock.advance(EVERY_MS);
    const lengths = [await historyOf(app), await historyOf(late)].map((it) => it.perSecond.length);
    assertEquals(lengths, [1, 1]);
    await fixture.stop();
    assertEquals(clock.pending, 0, "after the stop");
    await clock.advance(EVERY_MS * 4);
    fixture.group.run().catch(() => {}); // a shutdown has stopped the group: it runs again
    await clock.advance(EVERY_MS);
    assertEquals((await historyOf(app)).perSecond, [0, null, null, null, null, 0], "a gap");
    await clock.until(fixture.group.shutdown());
    assertEquals(clock.pending, 0);
  });

  it("an engine that is away or slow gives null, and does not delay a stop", async () => {
    const fixture = new Fixture();
    const app = fixture.app({ checkTimeoutMs: 60_000 });
    await fixture.start();
    await fixture.clock.advance(EVERY_MS);
    fixture.mailbox.loseConnection();
    await fixture.clock.advance(EVERY_MS * 2);
    fixture.mailbox.restoreConnection();
    await fixture.clock.advance(EVERY_MS * 2);
    const { mailboxes, perSecond } = await historyOf(app);
    assertEquals(mailboxes["jobs"]?.waiting.slice(0, 3), [0, null, null]);
    assertEquals([mailboxes["jobs"]?.waiting.at(-1), perSecond.length], [0, 5]);

    const never = () => new Promise<never>(() => {});
    Object.defineProperty(fixture.mailbox, "stats", { value: never });
    await fixture.clock.advance(EVERY_MS); // the sample has begun
    const began = fixture.clock.now();
    await fixture.stop();
    assert(fixture.clock.now() - began < 2_000, "the stop does not wait for the sample");
    assertEquals(fixture.clock.pending, 0, "no timer is left");
  });

  it("a sample asks an engine once, and only those of the first 50 mailboxes", async () => {
    const clock = new VirtualClock();
    const asked = new Map<string, number>();
    const mailboxes = Array.from({ length: 60 }, (_, i) => ({
      name: `m${i}`,
      approximateCount: () => {
        asked.set(`m${i}`, (asked.get(`m${i}`) ?? 0) + 1);
        return Promise.resolve(i);
      },
    }));
    const loop = new MailboxLoop({
      ...{ mailbox: new InMemoryMailbox<string>("jobs", { clock }), clock, log: silentLog },
      handler: () => {},
    });
    const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
    const app = healthApp(group, { clock, log: silentLog, mailboxes });
    const run = group.run();
    await clock.advance(EVERY_MS * 3);
    assertEquals([asked.size, new Set(asked.values())], [50, new Set([3])]);
    const names = Object.keys((await historyOf(app)).mailboxes);
    assertEquals([names.length, names.at(-1)], [50, "m49"]);
    await clock.until(group.shutdown());
    await run;
  });
});
