import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CronLoop, type CronLoopOptions } from "../../src/cron/mod.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { BASIC_CAPABILITIES } from "../../src/mailbox/capabilities.ts";
import { NullMailbox } from "../../src/testing/mod.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { type Replica, Site } from "./_cron.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Runs a replica for a while and stops it. */
async function runFor(clock: VirtualClock, { loop }: Replica, ms: number): Promise<void> {
  const run = loop.run();
  await clock.advance(ms);
  assertEquals(await clock.until(loop.shutdown()), true);
  await run;
}

/** A site at 08:30 with one hourly schedule. */
function hourly(options: Partial<CronLoopOptions<string>> = {}) {
  const clock = new VirtualClock(Date.UTC(2030, 0, 7, 8, 30));
  return { clock, site: new Site(clock, options) };
}

describe("CronLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const { clock, site } = hourly({ schedule: "* * * * * *" });
        return { clock, runnable: site.replica().loop };
      }));
  }

  it("sends each slot when its time has come, with its id and the options of messages", async () => {
    const clock = new VirtualClock(Date.UTC(2030, 0, 7, 8, 30));
    const mailbox = new InMemoryMailbox<string>("jobs", { clock });
    const loop = new CronLoop({
      name: "weekly",
      schedule: "0 9 * * 1",
      timezone: "UTC",
      mailbox,
      body: "report",
      key: "reports",
      priority: 3,
      headers: { tenant: "acme" },
      expiresInMs: 2 * HOUR,
      clock,
    });
    assertEquals([loop.next, loop.last], [new Date("2030-01-07T09:00Z"), undefined]);
    const run = loop.run();
    await clock.advance(30 * MINUTE - 1);
    assertEquals(await mailbox.approximateCount(), 0, "not before its time");
    await clock.advance(1);
    const [message] = await mailbox.receive();
    assertEquals(message?.id, "cron:weekly:2030-01-07T09:00:00Z");
    assertEquals([message?.body, message?.key, message?.priority], ["report", "reports", 3]);
    assertEquals([message?.headers, message?.expiresInMs], [{ tenant: "acme" }, 2 * HOUR]);
    assertEquals(loop.last, new Date("2030-01-07T09:00Z"));
    assertEquals(loop.next, new Date("2030-01-14T09:00Z"));
    await clock.until(loop.shutdown());
    await run;
    await mailbox.close();
  });

  it("a loop that starts just before a slot waits for its time", async () => {
    const clock = new VirtualClock(Date.UTC(2030, 0, 7, 8, 59, 59, 500));
    const site = new Site(clock);
    const { loop } = site.replica();
    const run = loop.run();
    await clock.advance(499);
    assertEquals(await site.times(), []);
    await clock.advance(1);
    assertEquals(await site.times(), ["09:00"]);
    await clock.until(loop.shutdown());
    await run;
  });

  it("a catch-up into a mailbox that is nearly full goes on as room becomes free", async () => {
    const clock = new VirtualClock(Date.UTC(2030, 0, 7, 8, 30));
    const mailbox = new InMemoryMailbox<string>("jobs", { clock, maxSize: 2 });
    const make = () =>
      new CronLoop({
        name: "report",
        schedule: "0 * * * *",
        mailbox,
        body: ({ at }) => at.toISOString().slice(11, 16),
        catchUp: "all",
        clock,
        log: silentLog,
      });
    await make().run({ untilEmpty: true });
    await clock.advance(5 * HOUR);
    const loop = make();
    const run = loop.run();
    const handled: string[] = [];
    for (let round = 0; round < 5; round++) {
      await clock.advance(3_000);
      const [message] = await mailbox.receive();
      handled.push(message!.body);
      await message!.acknowledge();
    }
    assertEquals(handled, ["09:00", "10:00", "11:00", "12:00", "13:00"]);
    await clock.until(loop.shutdown());
    await run;
    await mailbox.close();
  });

  it("replicas send a slot once, also the one that starts later", async () => {
    const { clock, site } = hourly();
    const replicas = [site.replica(), site.replica(), site.replica()];
    const runs = replicas.slice(0, 2).map(({ loop }) => loop.run());
    await clock.advance(31 * MINUTE);
    runs.push(replicas[2]!.loop.run());
    await clock.advance(HOUR);
    assertEquals(await site.times(), ["09:00", "10:00"]);
    for (const { loop } of replicas) await clock.until(loop.shutdown());
    await Promise.all(runs);
  });

  it("the first start has missed nothing, a restart has missed what came between", async () => {
    const { clock, site } = hourly({ catchUp: "all" });
    await runFor(clock, site.replica(), MINUTE);
    await clock.advance(2 * HOUR);
    assertEquals(await site.times(), [], "nothing runs");
    await runFor(clock, site.replica(), MINUTE);
    assertEquals(await site.times(), ["09:00", "10:00"]);
  });

  it("with `last`, a restart sends only the latest of the missed slots", async () => {
    const { clock, site } = hourly();
    await runFor(clock, site.replica(), 31 * MINUTE);
    await clock.advance(3 * HOUR);
    await runFor(clock, site.replica(), MINUTE);
    await runFor(clock, site.replica(), MINUTE);
    assertEquals(await site.times(), ["09:00", "12:00"]);
    assertEquals(site.logged, ["slots skipped"]);
  });

  it("with `none`, a restart sends no missed slot, and keeps no record", async () => {
    const { clock, site } = hourly({ catchUp: "none" });
    await runFor(clock, site.replica(), 31 * MINUTE);
    await clock.advance(3 * HOUR);
    await runFor(clock, site.replica(), HOUR);
    assertEquals(await site.times(), ["09:00", "13:00"]);
    assertEquals(await site.storage.queue("jobs.cron").count(), 0);
  });

  it("a long absence sends the latest 10 000 slots in order", async () => {
    const { clock, site } = hourly({ catchUp: "all", schedule: "* * * * *" });
    await runFor(clock, site.replica(), 10);
    await clock.advance(10_050 * MINUTE);
    await site.replica().loop.run({ untilEmpty: true });
    const sent: string[] = [];
    for (let batch = await site.handle(); batch.length > 0; batch = await site.handle()) {
      sent.push(...batch);
    }
    assertEquals(sent.length, 10_000);
    assertEquals(sent, [...new Set(sent)].sort());
    assertEquals(sent.at(-1), new Date(clock.now() - 10).toISOString());
    assertEquals(site.logged, ["slots skipped"]);
  });

  it("a changed schedule has missed nothing", async () => {
    const { clock, site } = hourly();
    await runFor(clock, site.replica(), 31 * MINUTE);
    await clock.advance(HOUR);
    await runFor(clock, site.replica({ schedule: "30 * * * *" }), MINUTE);
    assertEquals(await site.times(), ["09:00"], "09:30 belongs to the new schedule");
    await clock.advance(HOUR);
    await runFor(clock, site.replica({ schedule: "30 * * * *" }), MINUTE);
    assertEquals(await site.times(), ["10:30"]);
  });

  it("one record is kept per schedule, however many slots there were", async () => {
    const { clock, site } = hourly();
    const replicas = [site.replica(), site.replica({ name: "other" }), site.replica()];
    const runs = replicas.map(({ loop }) => loop.run());
    await clock.advance(50 * HOUR);
    for (const { loop } of replicas) await clock.until(loop.shutdown());
    await Promise.all(runs);
    assertEquals(await site.storage.queue("jobs.cron").count(), 2);
  });

  it("while the engine is away the loop is not ready, and sends the slot when it is back", async () => {
    const { clock, site } = hourly();
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(MINUTE);
    assertEquals(replica.loop.ready, true);
    replica.disconnect();
    await clock.advance(30 * MINUTE);
    assertEquals(replica.loop.ready, false);
    assertEquals(site.logged[0], "slots could not be sent; trying again");
    replica.reconnect();
    await clock.advance(1_000);
    assertEquals(replica.loop.ready, true);
    assertEquals(await site.times(), ["09:00"]);
    await clock.until(replica.loop.shutdown());
    await run;
  });

  it("a slot whose answer was lost is sent once", async () => {
    const { clock, site } = hourly({ catchUp: "all" });
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(MINUTE);
    replica.disconnect(true);
    await clock.advance(30 * MINUTE);
    const handled = await site.times();
    replica.reconnect();
    await clock.advance(2 * MINUTE);
    assertEquals([...handled, ...await site.times()], ["09:00"]);
    assertEquals(site.storage.queue("jobs.cron").count(), 1, "the old record is deleted");
    await clock.until(replica.loop.shutdown());
    await run;
  });

  it("with `none`, a slot that cannot be sent within a minute is skipped", async () => {
    const { clock, site } = hourly({ catchUp: "none" });
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(29 * MINUTE);
    replica.disconnect();
    await clock.advance(90_000);
    replica.reconnect();
    await clock.advance(2_000);
    assertEquals(await site.times(), ["09:00"], "30 s late");
    await clock.advance(58 * MINUTE);
    replica.disconnect();
    await clock.advance(5 * MINUTE);
    replica.reconnect();
    await clock.advance(2_000);
    assertEquals(await site.times(), [], "over a minute late");
    assert(site.logged.includes("slots skipped"));
    await clock.until(replica.loop.shutdown());
    await run;
  });

  it("a stop during an outage ends at once", async () => {
    const { clock, site } = hourly();
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(MINUTE);
    replica.disconnect();
    await clock.advance(30 * MINUTE);
    const before = clock.monotonic();
    assertEquals(await clock.until(replica.loop.shutdown()), true);
    assertEquals(clock.monotonic(), before);
    await run;
    assertEquals(clock.pending, 0);
  });

  it("a stop ends within its timeout while the engine hangs, and the slot is sent later", async () => {
    const { clock, site } = hourly();
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(MINUTE);
    replica.hang();
    await clock.advance(30 * MINUTE);
    assertEquals(replica.loop.inFlight.map(({ id }) => id), ["slots of report"]);
    assertEquals(await clock.until(replica.loop.shutdown({ timeoutMs: 5_000 })), true);
    await run;
    await runFor(clock, site.replica(), MINUTE);
    assertEquals(await site.times(), ["09:00"]);
  });

  it("a slot that was due while the machine was suspended is sent soon after", async () => {
    const { clock, site } = hourly();
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(10_000);
    // The timers stand still, and the wall clock is hours ahead.
    clock.stepWallClock(3 * HOUR);
    await clock.advance(30_000);
    assertEquals(await site.times(), ["11:00"]);
    await clock.until(replica.loop.shutdown());
    await run;
  });

  it("a replica that was suspended for long repeats no slot that others have sent", async () => {
    const { clock, site } = hourly({ catchUp: "all", dedupMs: HOUR });
    const [asleep, awake] = [site.replica(), site.replica()];
    const run = asleep.loop.run();
    await clock.advance(MINUTE);
    // A loop that is paused does not see the time pass, as a suspended one.
    await asleep.loop.pause();
    await runFor(clock, awake, 5 * HOUR);
    assertEquals((await site.times()).length, 5);
    asleep.loop.resume();
    await clock.advance(MINUTE);
    assertEquals(await site.times(), []);
    await clock.until(asleep.loop.shutdown());
    await run;
  });

  it("a clock that is set back repeats no slot, also after a restart", async () => {
    for (const catchUp of ["none", "last", "all"] as const) {
      const { clock, site } = hourly({ catchUp });
      const replica = site.replica();
      const run = replica.loop.run();
      await clock.advance(2 * HOUR);
      assertEquals(await site.times(), ["09:00", "10:00"]);
      clock.stepWallClock(-90 * MINUTE);
      await clock.advance(80 * MINUTE);
      await clock.until(replica.loop.shutdown());
      await run;
      clock.stepWallClock(-HOUR);
      await runFor(clock, site.replica(), 70 * MINUTE);
      assertEquals(await site.times(), [], catchUp);
      await runFor(clock, site.replica(), HOUR);
      assertEquals(await site.times(), ["11:00"], catchUp);
    }
  });

  it("a paused loop sends nothing, and the slots of the pause are missed", async () => {
    const { clock, site } = hourly();
    const replica = site.replica();
    const run = replica.loop.run();
    await clock.advance(MINUTE);
    await replica.loop.pause();
    await clock.advance(4 * HOUR);
    assertEquals(await site.times(), []);
    replica.loop.resume();
    await clock.advance(MINUTE);
    assertEquals(await site.times(), ["12:00"]);
    await clock.until(replica.loop.shutdown());
    await run;
  });

  it("a body function that throws ends the run with its error", async () => {
    const { clock, site } = hourly();
    const replica = site.replica({
      body: () => {
        throw new Error("no ink");
      },
    });
    await assertRejects(() => clock.until(replica.loop.run()), Error, "no ink");
    assertEquals(clock.pending, 0);
  });

  it("a loop rests while it waits, so that the watchdog leaves it alone", async () => {
    const { clock, site } = hourly({ schedule: "0 9 * * 1" });
    const { loop } = site.replica();
    const run = loop.run();
    await clock.advance(MINUTE);
    const { heartbeat } = loop;
    for (let i = 0; i < 100; i++) {
      await clock.advance(HOUR + 7_000);
      assertEquals(heartbeat.ageMs, 0);
    }
    await clock.until(loop.shutdown());
    await run;
  });

  it("a mailbox of a URL is opened by the run, which ends after maxIterations slots", async () => {
    const clock = new VirtualClock();
    const loop = new CronLoop({
      name: "report",
      schedule: "* * * * *",
      mailbox: "memory:jobs",
      body: 1,
      clock,
      log: silentLog,
    });
    const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
    assertEquals(loop.ready, false);
    const report = await clock.until(group.run({ maxIterations: 2 }));
    assertEquals([report.exitCode, loop.last], [0, new Date(clock.now())]);
    assertEquals(clock.monotonic(), 2 * MINUTE);
  });

  it("invalid options are refused before anything starts", () => {
    const mailbox = new InMemoryMailbox<string>("jobs");
    const valid = { name: "a", schedule: "0 9 * * 1", mailbox, body: "b" };
    const invalid: readonly [object, typeof TypeError | typeof RangeError, string][] = [
      [{ name: "" }, TypeError, "loop name"],
      [{ name: "a\0" }, TypeError, "id"],
      [{ schedule: "61 * * * *" }, TypeError, "61 * * * *"],
      [{ timezone: "Mars/Olympus" }, TypeError, "Mars/Olympus"],
      [{ catchUp: "some" }, TypeError, '"some"'],
      [{ mailbox: {} }, TypeError, "mailbox"],
      [{ body: undefined }, TypeError, "body"],
      [{ dedupMs: 1_000 }, RangeError, "3600000"],
      [{ dedupMs: Infinity }, RangeError, "Infinity"],
      [{ priority: 10 }, RangeError, "priority"],
      [{ stopOrder: NaN }, RangeError, "stopOrder"],
    ];
    for (const [options, kind, part] of invalid) {
      assertThrows(() => new CronLoop({ ...valid, ...options } as never), kind, part);
    }
    assertThrows(() => new CronLoop({ ...valid, mailbox: "pigeon:roof" }), Error, "pigeon");
  });

  it("an engine that cannot remember ids is refused, and one without a record for catchUp", () => {
    const basic = new NullMailbox<string>();
    Object.defineProperty(basic, "capabilities", { value: BASIC_CAPABILITIES });
    const valid = { name: "a", schedule: "0 9 * * 1", body: "b" };
    assertThrows(() => new CronLoop({ ...valid, mailbox: basic }), Error, "dedupWindow");
    const noQueue = new InMemoryMailbox<string>("jobs");
    Object.defineProperty(noQueue, "queue", { value: undefined });
    assertThrows(() => new CronLoop({ ...valid, mailbox: noQueue }), Error, 'catchUp "last"');
    assertEquals(new CronLoop({ ...valid, mailbox: noQueue, catchUp: "none" }).name, "a");
  });
});
