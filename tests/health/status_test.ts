import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { Board } from "../../src/coordination/mod.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import type { InFlight, Runnable } from "../../src/lifecycle/runnable.ts";
import { healthApp, type Inspectable, type Status } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { deferred } from "../../src/_promises.ts";
import type { MailboxStats } from "../../src/mailbox/mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

async function statusOf(app: ReturnType<typeof healthApp>): Promise<Status> {
  const response = await app.request("/status");
  assertEquals([response.status, response.headers.get("cache-control")], [200, "no-store"]);
  return await response.json();
}

/** The status of an empty mailbox. */
const EMPTY = {
  ...{ messages: 0, waiting: 0, delayed: 0, inFlight: 0, dead: 0 },
  ...{ paused: false, ownerDetection: false },
  letters: [],
};

/** Counts the queries. */
class CountedMailbox extends InMemoryMailbox<string> {
  asked = 0;

  override async stats(): Promise<MailboxStats> {
    this.asked++;
    return await super.stats();
  }
}

/** Returns a loop that only reports work in flight. */
function loopWith(name: string, inFlight: readonly InFlight[]): Runnable {
  return {
    name,
    running: true,
    inFlight,
    run: () => new Promise(() => {}),
    shutdown: () => Promise.resolve(true),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Returns the health of a group whose loops run, without running it. */
function inspectable(loops: readonly Runnable[]): Inspectable {
  const group = new LoopGroup(loops, { runtime: new FakeRuntime(), log: silentLog });
  const { loops: idle, ...health } = group.health();
  return {
    loops,
    outcomes: group.outcomes,
    health: () => ({
      ...health,
      loops: idle.map((loop, i) => {
        const { inFlight = [] } = loops[i]!;
        const oldestMs = inFlight.reduce((most, { ageMs }) => Math.max(most, ageMs), 0);
        return { ...loop, state: "running", ready: true, inFlight: inFlight.length, oldestMs };
      }),
    }),
    pause: () => Promise.resolve(),
    resume() {},
  };
}

describe("the status of a group", () => {
  it("/status has the work in flight and the counts of each loop, and each mailbox", async () => {
    const fixture = new Fixture();
    await fixture.start();
    await fixture.mailbox.send("tea", { id: "tea" });
    await fixture.clock.advance(2_000);
    const status = await statusOf(fixture.app({ token: "0123456789abcdef" }));
    const { loops: [loop], ...group } = status;
    const { loops: _, ...health } = fixture.group.health();
    assertEquals({ ...group, ...health }, group, "it contains the snapshot");
    assertEquals([group.at, group.controls], [fixture.clock.now(), true]);
    assertEquals(loop!.ahead, { most: 0, waiting: 0 }, "received ahead");
    assertEquals(loop?.work, [{ id: "tea", ageMs: 2_000 }]);
    assertEquals([loop?.mailbox, loop?.counts?.received, loop?.inFlight], ["jobs", 1, 1]);
    assertEquals(loop?.leases, { attempts: 0, failures: 0, losses: 0, withheld: 0 });
    const place = { name: "jobs", engine: "memory", reachable: true };
    assertEquals(group.mailboxes, [{ ...place, ...EMPTY, messages: 1, inFlight: 1 }]);
    assertEquals(group.totals.inFlight, 1);
    assertEquals(group.agents, undefined);
    await fixture.stop();
  });

  it("/status has how far the messages of a loop are, without their bodies", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<string>("jobs", { clock });
    const go = deferred();
    const loop = new MailboxLoop<string>({
      mailbox,
      clock,
      log: silentLog,
      handler: async (_, { step }) => {
        await step("charge", () => "a receipt");
        await go.promise;
      },
    });
    const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
    const run = group.run();
    await mailbox.send("a secret", { id: "tea" });
    await clock.advance(2_000);
    const app = healthApp(group, { clock, log: silentLog });
    const { loops: [status] } = await statusOf(app);
    assertEquals(status?.messages, [
      { id: "tea", attempt: 1, runningMs: 2_000, finishedSteps: 1, steps: ["charge"] },
    ]);
    assertEquals(/secret|receipt/.test(await (await app.request("/status")).text()), false);
    go.resolve();
    await clock.until(group.shutdown());
    await run;
  });

  it("/status has the progress of a stop", async () => {
    const fixture = new Fixture();
    await fixture.start();
    await fixture.mailbox.send("tea");
    await fixture.clock.advance(10);
    const stopping = fixture.group.shutdown();
    await fixture.clock.advance(4_000);
    const { phase, stop, controls } = await statusOf(fixture.app());
    assertEquals([phase, controls], ["draining", false]);
    assertEquals([stop?.elapsedMs, stop?.remainingMs, stop?.timeoutMs], [4_000, 26_000, 30_000]);
    fixture.work.resolve();
    await fixture.clock.until(stopping);
  });

  it("/status has the rate over the last 10 s from the second request on, without a timer", async () => {
    const fixture = new Fixture();
    await fixture.start();
    const app = fixture.app();
    const rate = async () => (await statusOf(app)).loops[0]?.perSecond;
    assertEquals(await rate(), undefined);
    fixture.work.resolve();
    await fixture.mailbox.sendMany(Array.from({ length: 10 }, (_, i) => `${i}`));
    await fixture.clock.advance(100);
    assertEquals(await rate(), undefined, "the two counts are too close");
    await fixture.clock.advance(1_900);
    const { pending } = fixture.clock;
    assertEquals(await rate(), 5);
    assertEquals((await statusOf(app)).totals.perSecond, 5);
    assertEquals(fixture.clock.pending, pending);
    await fixture.clock.advance(60_000);
    assertEquals(await rate(), undefined, "the earlier counts are too old");
    await fixture.clock.advance(1_000);
    assertEquals(await rate(), 0);
    await fixture.stop();
  });

  it("/status has each mailbox once, and queries it once for concurrent requests", async () => {
    const fixture = new Fixture();
    const other = new CountedMailbox("other", { clock: fixture.clock });
    const app = fixture.app({ mailboxes: [other, fixture.mailbox] });
    const names = (await Promise.all(Array.from({ length: 50 }, () => statusOf(app))))
      .map(({ mailboxes }) => mailboxes.map(({ name }) => name));
    assertEquals(new Set(names.map(String)), new Set(["other,jobs"]));
    assertEquals(other.asked, 1);
    await fixture.clock.advance(999);
    await statusOf(app);
    assertEquals(other.asked, 1, "still fresh");
    await fixture.clock.advance(1);
    await statusOf(app);
    assertEquals(other.asked, 2);
  });

  it("/status reports an unreachable engine, and does not wait for one that hangs", async () => {
    const fixture = new Fixture();
    const { clock, mailbox } = fixture;
    const frozen = new CountedMailbox("frozen", { clock });
    let ask = () => new Promise<MailboxStats>(() => {});
    Object.defineProperty(frozen, "stats", {
      value: () => (frozen.asked++, ask()),
    });
    mailbox.loseConnection();
    const app = fixture.app({ mailboxes: [frozen], checkTimeoutMs: 400 });
    const error = "The connection is lost: no answer to stats";
    const away = [
      { name: "frozen", engine: "memory", reachable: false, error: "no answer within 400 ms" },
      { name: "jobs", engine: "memory", reachable: false, error },
    ];
    const first = statusOf(app);
    await clock.advance(400);
    assertEquals((await first).mailboxes, away);
    await clock.advance(1_100);
    assertEquals((await statusOf(app)).mailboxes, away, "without a wait");
    assertEquals(frozen.asked, 1, "a hanging engine is not queried by every request");
    await clock.advance(4_000);
    assertEquals((await statusOf(app)).mailboxes, away, "nor while it is queried again");
    assertEquals([frozen.asked, fixture.logged.length], [2, 2], "each failure is logged once");
    await clock.advance(400);

    const place = (name: string) => ({ name, engine: "memory", reachable: true });
    mailbox.restoreConnection();
    ask = () => Promise.resolve({ waiting: 7, delayed: 2, inFlight: 1 });
    await clock.advance(5_000);
    await statusOf(app);
    await clock.settle();
    assertEquals((await statusOf(app)).mailboxes, [
      {
        ...{ ...place("frozen"), ownerDetection: false },
        ...{ messages: 10, waiting: 7, delayed: 2, inFlight: 1 },
      },
      { ...place("jobs"), ...EMPTY },
    ]);
  });

  it("/status has delayed messages, the age of the oldest waiting one, and whether it is paused", async () => {
    const fixture = new Fixture();
    const { clock } = fixture;
    const other = new InMemoryMailbox<string>("other", { clock });
    await other.pause();
    await other.send("tea");
    await other.send("cake", { delayMs: 60_000 });
    await clock.advance(3_000);
    const { mailboxes: [mailbox] } = await statusOf(fixture.app({ mailboxes: [other] }));
    const place = { name: "other", engine: "memory", reachable: true };
    assertEquals(mailbox, {
      ...{ ...place, ...EMPTY, messages: 2, waiting: 1, delayed: 1 },
      ...{ oldestWaitingMs: 3_000, paused: true },
    });
  });

  it("/status counts the messages of a mailbox that has no stats", async () => {
    const counter = { name: "counter", approximateCount: () => Promise.resolve(3) };
    const { mailboxes: [mailbox] } = await statusOf(new Fixture().app({ mailboxes: [counter] }));
    assertEquals(mailbox, { name: "counter", reachable: true, messages: 3 });
  });

  it("/status does not query a closed mailbox, and reads the one that a new run has opened", async () => {
    const clock = new VirtualClock();
    const first = new CountedMailbox("orders", { clock });
    const loop = { ...loopWith("orders", []), mailbox: first as Runnable["mailbox"] };
    const logged: string[] = [];
    const log = { ...silentLog, warn: (text: string) => void logged.push(text) };
    const app = healthApp(inspectable([loop]), { clock, log });
    await statusOf(app);
    await first.close();
    loop.mailbox = undefined;
    await clock.advance(1_000);
    const { mailboxes: [closed] } = await statusOf(app);
    assertEquals([closed?.reachable, closed?.error], [false, "the mailbox is closed"]);
    assertEquals([first.asked, logged], [1, []]);
    const second = new CountedMailbox("orders", { clock });
    await second.send("tea");
    loop.mailbox = second;
    const { mailboxes: [reopened] } = await statusOf(app);
    assertEquals([reopened?.reachable, reopened?.waiting], [true, 1]);
  });

  it("/status has the messages of engine errors, and only the names of other errors", async () => {
    const fixture = new Fixture();
    const jobs = new InMemoryMailbox<string>("other");
    Object.defineProperty(jobs, "stats", {
      value: () => Promise.reject(new TypeError("no door at door://ada:secret@house")),
    });
    const { mailboxes: [other] } = await statusOf(fixture.app({ mailboxes: [jobs] }));
    assertEquals(other?.error, "TypeError; the log has the rest");
  });

  it("/status has the outcome and the exit code of the run", async () => {
    const fixture = new Fixture();
    await fixture.start();
    assertEquals((await statusOf(fixture.app())).end, undefined);
    await fixture.stop();
    const { end, phases, totals } = await statusOf(fixture.app());
    assertEquals(end, { outcome: "drained", exitCode: 0 });
    assertEquals(phases, ["starting", "running", "unready", "draining", "stopped"]);
    assertEquals([totals.ready, totals.loops], [0, 1]);
  });

  it("/status has dead letters with their reasons and without their errors", async () => {
    const fixture = new Fixture();
    fixture.fail(new Error("no room at postgres://ada:secret@db"));
    await fixture.start();
    await fixture.mailbox.send("tea", { id: "tea" });
    await fixture.clock.advance(10);
    const response = await fixture.app({ token: "0123456789abcdef" }).request("/status");
    const text = await response.text();
    assert(!text.includes("secret"), text);
    const [mailbox] = (JSON.parse(text) as Status).mailboxes;
    assertEquals([mailbox?.messages, mailbox?.dead], [0, 1]);
    assertEquals(mailbox?.letters, [{
      id: "tea",
      reason: "max_deliveries",
      deliveryCount: 1,
      deadAt: fixture.clock.now() - 10,
    }]);
    await fixture.stop();
  });

  it("/status counts the dead letters of an engine that cannot peek", async () => {
    const fixture = new Fixture();
    const letters = new InMemoryMailbox("letters", { clock: fixture.clock });
    await letters.send("a letter");
    Object.defineProperty(letters, "peek", { value: () => Promise.reject(new Error("no peek")) });
    Object.defineProperty(fixture.mailbox, "deadLetters", { value: letters });
    const { mailboxes } = await statusOf(fixture.app());
    const place = { name: "jobs", engine: "memory", reachable: true };
    const { letters: _, ...empty } = EMPTY;
    assertEquals(mailboxes, [{ ...place, ...empty, dead: 1 }]);
  });

  it("/status has the states of agents without metadata, and keeps them while the board is unreachable", async () => {
    const fixture = new Fixture();
    const board = new Board({ clock: fixture.clock, log: silentLog });
    await board.setState("waiter-1", "running", { password: "secret" });
    const app = fixture.app({ board });
    const line = { agentId: "waiter-1", status: "running", updatedAt: fixture.clock.now() };
    const before = await statusOf(app);
    assertEquals([before.agents, before.boardReachable], [[line], true]);
    board.list = () => Promise.reject(new Error("away"));
    await fixture.clock.advance(1_000);
    const after = await statusOf(app);
    assertEquals([after.agents, after.boardReachable], [[line], false]);
    await board.close();
  });

  it("/status has the oldest 20 of 10,000 entries in flight, and counts all", async () => {
    const work = Array.from({ length: 10_000 }, (_, i) => ({
      id: `m${i}`,
      ageMs: (i * 7_919) % 10_000, // each age once, shuffled
    }));
    const { loops: [loop], totals } = await statusOf(healthApp(inspectable([
      loopWith("kitchen", work),
    ])));
    assertEquals(
      loop?.work.map(({ ageMs }) => ageMs),
      Array.from({ length: 20 }, (_, i) => 9_999 - i),
    );
    assertEquals([loop?.inFlight, totals.inFlight, totals.oldestMs], [10_000, 10_000, 9_999]);
  });

  it("/status has 1,000 loops and mailboxes, and queries many mailboxes less often", async () => {
    const clock = new VirtualClock();
    const mailboxes = Array.from(
      { length: 1_000 },
      (_, i) => new CountedMailbox(`m${i}`, { clock }),
    );
    await mailboxes[999]?.send("tea");
    const loops = mailboxes.map((mailbox, i) => {
      return Object.assign(loopWith(`l${i}`, [{ id: "a", ageMs: i }]), { mailbox });
    });
    const app = healthApp(inspectable(loops), { clock });
    const status = await statusOf(app);
    assertEquals([status.loops.length, status.mailboxes.length], [1_000, 1_000]);
    assertEquals(status.loops[999]?.work, [{ id: "a", ageMs: 999 }]);
    assertEquals(status.mailboxes[999]?.messages, 1);
    assertEquals(status.totals.inFlight, 1_000);
    await clock.advance(9_999);
    await statusOf(app);
    assertEquals(mailboxes[500]?.asked, 1);
    await clock.advance(1);
    await statusOf(app);
    assertEquals(mailboxes[500]?.asked, 2);
  });
});
