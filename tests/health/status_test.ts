import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { Board } from "../../src/coordination/mod.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import type { InFlight, Runnable } from "../../src/lifecycle/runnable.ts";
import { healthApp, type Inspectable, type Status } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Clinic } from "./_clinic.ts";

async function statusOf(app: ReturnType<typeof healthApp>): Promise<Status> {
  const response = await app.request("/status");
  assertEquals([response.status, response.headers.get("cache-control")], [200, "no-store"]);
  return await response.json();
}

/** A mailbox that counts how often it is asked. */
class CountedMailbox extends InMemoryMailbox<string> {
  asked = 0;

  override async approximateCount(): Promise<number> {
    this.asked++;
    return await super.approximateCount();
  }
}

/** A loop that does nothing but say how much it has to do. */
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

/** A group that only looks like one, with loops that run. */
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
  it("tells what every loop works on and what became of its messages", async () => {
    const clinic = new Clinic();
    await clinic.start();
    await clinic.mailbox.send("tea", { id: "tea" });
    await clinic.clock.advance(2_000);
    const status = await statusOf(clinic.app({ token: "0123456789abcdef" }));
    const { loops: [loop], ...group } = status;
    const { loops: _, ...health } = clinic.group.health();
    assertEquals({ ...group, ...health }, group, "it is the snapshot and more");
    assertEquals([group.at, group.controls], [clinic.clock.now(), true]);
    assertEquals(loop?.work, [{ id: "tea", ageMs: 2_000 }]);
    assertEquals([loop?.mailbox, loop?.counts?.received, loop?.inFlight], ["jobs", 1, 1]);
    assertEquals(loop?.leases, { attempts: 0, failures: 0, losses: 0, withheld: 0 });
    assertEquals(group.mailboxes, [
      { name: "jobs", engine: "memory", reachable: true, messages: 1, deadLetters: 0, letters: [] },
    ]);
    assertEquals(group.totals.inFlight, 1);
    assertEquals(group.agents, undefined);
    await clinic.stop();
  });

  it("tells how far a stop is", async () => {
    const clinic = new Clinic();
    await clinic.start();
    await clinic.mailbox.send("tea");
    await clinic.clock.advance(10);
    const stopping = clinic.group.shutdown();
    await clinic.clock.advance(4_000);
    const { phase, stop, controls } = await statusOf(clinic.app());
    assertEquals([phase, controls], ["draining", false]);
    assertEquals([stop?.elapsedMs, stop?.remainingMs, stop?.timeoutMs], [4_000, 26_000, 30_000]);
    clinic.work.resolve();
    await clinic.clock.until(stopping);
  });

  it("has rates from the second look on, of the last seconds only, and no timer for them", async () => {
    const clinic = new Clinic();
    await clinic.start();
    const app = clinic.app();
    const rate = async () => (await statusOf(app)).loops[0]?.perSecond;
    assertEquals(await rate(), undefined);
    clinic.work.resolve();
    await clinic.mailbox.sendMany(Array.from({ length: 10 }, (_, i) => `${i}`));
    await clinic.clock.advance(100);
    assertEquals(await rate(), undefined, "two looks at once tell nothing");
    await clinic.clock.advance(1_900);
    const { pending } = clinic.clock;
    assertEquals(await rate(), 5);
    assertEquals((await statusOf(app)).totals.perSecond, 5);
    assertEquals(clinic.clock.pending, pending);
    await clinic.clock.advance(60_000);
    assertEquals(await rate(), undefined, "that was long ago");
    await clinic.clock.advance(1_000);
    assertEquals(await rate(), 0);
    await clinic.stop();
  });

  it("shows every mailbox once, and asks it once for many who look", async () => {
    const clinic = new Clinic();
    const other = new CountedMailbox("other", { clock: clinic.clock });
    const app = clinic.app({ mailboxes: [other, clinic.mailbox] });
    const names = (await Promise.all(Array.from({ length: 50 }, () => statusOf(app))))
      .map(({ mailboxes }) => mailboxes.map(({ name }) => name));
    assertEquals(new Set(names.map(String)), new Set(["other,jobs"]));
    assertEquals(other.asked, 1);
    await clinic.clock.advance(999);
    await statusOf(app);
    assertEquals(other.asked, 1, "still fresh");
    await clinic.clock.advance(1);
    await statusOf(app);
    assertEquals(other.asked, 2);
  });

  it("says that an engine is away, and is not held up by one that does not answer", async () => {
    const clinic = new Clinic();
    const { clock, mailbox } = clinic;
    const frozen = new CountedMailbox("frozen", { clock });
    let ask = () => new Promise<number>(() => {});
    Object.defineProperty(frozen, "approximateCount", {
      value: () => (frozen.asked++, ask()),
    });
    mailbox.loseConnection();
    const app = clinic.app({ mailboxes: [frozen], checkTimeoutMs: 400 });
    const error = "The connection is lost: no answer to count";
    const away = [
      { name: "frozen", engine: "memory", reachable: false, error: "no answer within 400 ms" },
      { name: "jobs", engine: "memory", reachable: false, error },
    ];
    const first = statusOf(app);
    await clock.advance(400);
    assertEquals((await first).mailboxes, away);
    await clock.advance(1_100);
    assertEquals((await statusOf(app)).mailboxes, away, "without any wait");
    assertEquals(frozen.asked, 1, "who does not answer is not asked at every look");
    await clock.advance(4_000);
    assertEquals((await statusOf(app)).mailboxes, away, "nor while it is asked again");
    assertEquals([frozen.asked, clinic.logged.length], [2, 2], "each is told once");
    await clock.advance(400);

    const place = (name: string) => ({ name, engine: "memory", reachable: true });
    mailbox.restoreConnection();
    ask = () => Promise.resolve(7);
    await clock.advance(5_000);
    await statusOf(app);
    await clock.settle();
    assertEquals((await statusOf(app)).mailboxes, [
      { ...place("frozen"), messages: 7, deadLetters: 0, letters: [] },
      { ...place("jobs"), messages: 0, deadLetters: 0, letters: [] },
    ]);
  });

  it("tells of an engine's own errors alone what they say", async () => {
    const clinic = new Clinic();
    const jobs = new InMemoryMailbox<string>("other");
    Object.defineProperty(jobs, "approximateCount", {
      value: () => Promise.reject(new TypeError("no door at door://ada:secret@house")),
    });
    const { mailboxes: [other] } = await statusOf(clinic.app({ mailboxes: [jobs] }));
    assertEquals(other?.error, "TypeError; the log has the rest");
  });

  it("tells how the run ended", async () => {
    const clinic = new Clinic();
    await clinic.start();
    assertEquals((await statusOf(clinic.app())).end, undefined);
    await clinic.stop();
    const { end, phases, totals } = await statusOf(clinic.app());
    assertEquals(end, { outcome: "drained", exitCode: 0 });
    assertEquals(phases, ["starting", "running", "unready", "draining", "stopped"]);
    assertEquals([totals.ready, totals.loops], [0, 1]);
  });

  it("shows dead letters with their reasons, and to nobody what their errors say", async () => {
    const clinic = new Clinic();
    clinic.fail(new Error("no room at postgres://ada:secret@db"));
    await clinic.start();
    await clinic.mailbox.send("tea", { id: "tea" });
    await clinic.clock.advance(10);
    const response = await clinic.app({ token: "0123456789abcdef" }).request("/status");
    const text = await response.text();
    assert(!text.includes("secret"), text);
    const [mailbox] = (JSON.parse(text) as Status).mailboxes;
    assertEquals([mailbox?.messages, mailbox?.deadLetters], [0, 1]);
    assertEquals(mailbox?.letters, [{
      id: "tea",
      reason: "max_deliveries",
      deliveryCount: 1,
      deadAt: clinic.clock.now() - 10,
    }]);
    await clinic.stop();
  });

  it("counts the dead letters of an engine that does not show them", async () => {
    const clinic = new Clinic();
    const letters = new InMemoryMailbox("letters", { clock: clinic.clock });
    await letters.send("a letter");
    Object.defineProperty(letters, "peek", { value: () => Promise.reject(new Error("no peek")) });
    Object.defineProperty(clinic.mailbox, "deadLetters", { value: letters });
    const { mailboxes } = await statusOf(clinic.app());
    const place = { name: "jobs", engine: "memory", reachable: true };
    assertEquals(mailboxes, [{ ...place, messages: 0, deadLetters: 1 }]);
  });

  it("tells the agents of a board by their states alone, and what it said last while it is away", async () => {
    const clinic = new Clinic();
    const board = new Board({ clock: clinic.clock, log: silentLog });
    await board.setState("waiter-1", "running", { password: "secret" });
    const app = clinic.app({ board });
    const line = { agentId: "waiter-1", status: "running", updatedAt: clinic.clock.now() };
    const before = await statusOf(app);
    assertEquals([before.agents, before.boardReachable], [[line], true]);
    board.list = () => Promise.reject(new Error("away"));
    await clinic.clock.advance(1_000);
    const after = await statusOf(app);
    assertEquals([after.agents, after.boardReachable], [[line], false]);
    await board.close();
  });

  it("names the oldest 20 of 10,000 in flight, and counts them all", async () => {
    const work = Array.from({ length: 10_000 }, (_, i) => ({
      id: `m${i}`,
      ageMs: (i * 7_919) % 10_000, // each age once, in no order
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

  it("tells of 1,000 loops and their mailboxes, and asks those less often", async () => {
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
