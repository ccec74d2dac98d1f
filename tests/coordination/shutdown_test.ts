import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  Board,
  MemoryStore,
  SHUTDOWN_STEPS,
  shutdownAllCoordinated,
  type ShutdownReport,
  shutdownWithCoordination,
} from "../../src/coordination/mod.ts";
import { nextTurn } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { BusMessage } from "../../src/coordination/mod.ts";
import { enrolRecorder, makeWorld, sendTasks } from "./_world.ts";

const envelope = {
  version: "1.0",
  msg_id: "m",
  from: "x",
  to: "worker-1",
  timestamp: 0,
  sequence: 1,
  type: "task",
  requires_ack: false,
} as const;

const outcomes = ({ steps }: ShutdownReport) => steps.map(({ outcome }) => outcome).join(" ");
const numbers = (count: number) => Array.from({ length: count }, (_, i) => ({ id: i + 1 }));

describe("the coordinated stop of one agent", () => {
  it("works off the inbox, says so on the board, and reports ten steps", async () => {
    await using world = await makeWorld();
    const { bus, board, sender } = world;
    const { agent, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, sender, "worker-1", 2);
    const report = await shutdownWithCoordination(agent, { timeoutMs: 10_000 });
    assertEquals(worked, numbers(2));
    assert(report.complete);
    assertEquals(report.steps.map(({ name }) => name), [...SHUTDOWN_STEPS]);
    assertEquals([report.processed, report.left], [2, 0]);
    assertEquals(await agent.inbox.approximateCount(), 0);
    assertEquals((await board.getState("worker-1")).status, "shutdown_complete");
  });

  for (const count of [5, 10, 50]) {
    it(`drains ${count} messages in order, in batches`, async () => {
      await using world = await makeWorld();
      const { agent, worked } = await enrolRecorder(world.bus, "worker-1");
      await sendTasks(world.bus, world.sender, "worker-1", count);
      const report = await shutdownWithCoordination(agent, { timeoutMs: 5_000, maxBatch: 7 });
      assertEquals(worked, numbers(count));
      assertEquals([report.complete, report.processed], [true, count]);
    });
  }

  it("tells every running peer once, in the agreed form, and the board before that", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const worker = await enrolRecorder(bus, "worker-1");
    const seen: string[] = [];
    const peer = await enrolRecorder(bus, "worker-2", {
      onNotification: async (notification) => {
        peer.told.push(notification);
        seen.push((await board.getState("worker-1")).state!);
      },
    });
    await bus.send(worker.agent, "worker-2", "task", {});
    await shutdownWithCoordination(worker.agent);
    await board.synced();
    const [told] = peer.told;
    assertEquals(peer.told.length, 1);
    assert(/^msg-\d+-\w+/.test(told!.msg_id));
    assertEquals({ ...told, msg_id: "", timestamp: 0 }, {
      version: "1.0",
      msg_id: "",
      from: "worker-1",
      to: "worker-2",
      timestamp: 0,
      sequence: 2,
      type: "shutdown_notification",
      payload: {
        shutting_down_agent: "worker-1",
        action: "pause_sending",
        reason: "Peer agent shutting down - inbox draining in progress",
      },
      requires_ack: false,
    });
    assertEquals(told!.timestamp, Math.floor(world.clock.now() / 1_000));
    assert(seen[0] !== "running");
    assertEquals(worker.told, []);
  });

  it("reports a drain that ran out of time as incomplete, and what is left is still there", async () => {
    await using world = await makeWorld();
    const { bus, board, clock } = world;
    const { agent, worked } = await enrolRecorder(bus, "slow", {
      handlers: {
        async task({ payload }, { signal }) {
          await clock.sleep(400, { signal });
          worked.push(payload);
        },
      },
    });
    await sendTasks(bus, world.sender, "slow", 5);
    const stopped = shutdownWithCoordination(agent, { timeoutMs: 1_000 });
    const report = await clock.until(stopped);
    assertEquals([report.complete, report.processed, report.left], [false, 2, 3]);
    assertEquals(report.steps[3]?.outcome, "timed_out");
    assert(report.durationMs <= 1_000);
    const left = await agent.inbox.receive({ maxMessages: 10 });
    assertEquals(left.map(({ body }) => body.payload), numbers(5).slice(2));
    assertEquals(left.map(({ deliveryCount }) => deliveryCount), [1, 1, 1]);
    const { status, metadata } = await board.getState("slow");
    assertEquals([status, metadata?.complete, metadata?.left], ["shutting_down", false, 3]);
  });

  it("hands over to the successor what there was no time for", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const heir = await enrolRecorder(bus, "heir");
    const { agent } = await enrolRecorder(bus, "slow", {
      successor: "heir",
      handlers: { task: (_, { signal }) => clock.sleep(600, { signal }) },
    });
    await sendTasks(bus, world.sender, "slow", 25);
    const report = await clock.until(shutdownWithCoordination(agent, { timeoutMs: 1_000 }));
    assertEquals([report.processed, report.handedOver, report.left], [1, 24, 0]);
    const inherited = await heir.agent.inbox.receive({ maxMessages: 100 });
    assertEquals(inherited.map(({ body }) => body.payload), numbers(25).slice(1));
  });

  it("goes on after steps that fail or hang, and never calls that complete", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const ran: string[] = [];
    const { agent } = await enrolRecorder(bus, "worker-1", {
      onHealth: ({ reason }) => {
        ran.push(reason);
        throw new Error("no health system");
      },
      stopLiveness: () => void ran.push("liveness"),
      stopOrphans: () => new Promise(() => {}),
      cleanup: [
        () => {
          ran.push("first");
          throw new Error("first failed");
        },
        () => void ran.push("second"),
      ],
    });
    const report = await clock.until(shutdownWithCoordination(agent, { timeoutMs: 2_000 }));
    assertEquals(ran, ["shutting_down", "liveness", "first", "second", "shutdown_incomplete"]);
    assertEquals(
      outcomes(report),
      "done done failed done done done timed_out failed done failed",
    );
    assertEquals(String(report.steps[7]?.error), "Error: first failed");
    assert(!report.complete && report.durationMs < 2_000);
  });

  it("makes all other steps when the board is away, and is complete on none of that", async () => {
    const store = new MemoryStore();
    const board = new Board({ log: silentLog, store });
    await using world = await makeWorld({ board });
    const { agent, worked } = await enrolRecorder(world.bus, "worker-1");
    await sendTasks(world.bus, world.sender, "worker-1", 3);
    store.write = () => Promise.reject(new Error("away"));
    const report = await shutdownWithCoordination(agent);
    assertEquals(
      outcomes(report),
      "failed failed skipped done done done skipped skipped failed skipped",
    );
    assertEquals([worked.length, report.left, report.complete], [3, 0, false]);
  });

  it("shuts down the loop that works on the inbox before it drains the rest", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { clock: world.clock });
    const began: unknown[] = [];
    let finish = () => {};
    const loop = new MailboxLoop<BusMessage>({
      mailbox: inbox,
      clock: world.clock,
      handler: async ({ body }) => {
        began.push(body.payload);
        await new Promise<void>((resolve) => finish = resolve);
      },
    });
    const { agent, worked } = await enrolRecorder(bus, "worker-1", { inbox, runnable: loop });
    await sendTasks(bus, world.sender, "worker-1", 3);
    const run = loop.run();
    while (began.length === 0) await nextTurn();
    const stopped = shutdownWithCoordination(agent);
    for (let i = 0; i < 5; i++) await nextTurn();
    assertEquals(worked, []);
    finish();
    const report = await stopped;
    await run;
    assertEquals([began, worked, report.complete], [[{ id: 1 }], numbers(3).slice(1), true]);
    await inbox.close();
  });

  it("drains what peers sent before they knew", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    const { agent, worked } = await enrolRecorder(bus, "worker-1", {
      stopLiveness: async () => {
        await agent.inbox.send({ ...envelope, payload: "late" });
      },
    });
    const report = await shutdownWithCoordination(agent);
    assertEquals([worked, report.complete, report.left], [["late"], true, 0]);
  });

  it("is complete when a message comes in the very moment in which the inbox was empty", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { clock });
    const count = inbox.approximateCount.bind(inbox);
    let late = 1;
    inbox.approximateCount = async () => {
      const found = await count();
      if (found === 0 && late-- > 0) {
        await inbox.send({ ...envelope, msg_id: "late", payload: "late" });
      }
      return found;
    };
    const { agent, worked } = await enrolRecorder(bus, "worker-1", { inbox });
    const report = await shutdownWithCoordination(agent);
    assertEquals([report.complete, worked, await count()], [true, ["late"], 0]);
    await inbox.close();
  });

  it("waits for what is hidden, and works on it when it comes back", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const { agent, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, world.sender, "worker-1", 1);
    const [taken] = await agent.inbox.receive();
    const stopped = shutdownWithCoordination(agent, { timeoutMs: 1_000 });
    clock.schedule(300, () => void taken!.release());
    const report = await clock.until(stopped);
    assertEquals([report.complete, worked, report.durationMs], [true, [{ id: 1 }], 300]);
  });

  it("does not call an inbox drained of which somebody else has a message", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const { agent } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, world.sender, "worker-1", 1);
    const [taken] = await agent.inbox.receive();
    const report = await clock.until(shutdownWithCoordination(agent, { timeoutMs: 1_000 }));
    assertEquals([report.complete, report.left], [false, 1]);
    await taken!.acknowledge();
  });

  it("gives back what it took while what was done could not be removed", async () => {
    await using world = await makeWorld();
    const { bus, clock, sender } = world;
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { clock });
    const { agent } = await enrolRecorder(bus, "worker-1", { inbox });
    await sendTasks(bus, sender, "worker-1", 20);
    inbox.acknowledgeMany = () => Promise.reject(new Error("away"));
    const report = await shutdownWithCoordination(agent);
    assertEquals([report.complete, report.processed, report.left], [false, 0, 20]);
    assertEquals(report.steps[3]?.outcome, "failed");
    const visible = await inbox.receive({ maxMessages: 20 });
    assertEquals(visible.map(({ body }) => body.payload), numbers(20).slice(10));
    await inbox.close();
  });

  it("keeps what it took for as long as handlers take, and works on each message once", async () => {
    await using world = await makeWorld();
    const { bus, clock, sender } = world;
    const worked: unknown[] = [];
    const task = async ({ payload }: BusMessage) => {
      await clock.sleep(3_000);
      worked.push((payload as { id: number }).id);
    };
    const { agent } = await enrolRecorder(bus, "slow", { handlers: { task } });
    await sendTasks(bus, sender, "slow", 5);
    const stopped = shutdownWithCoordination(agent, {
      timeoutMs: 60_000,
      visibilityTimeoutMs: 4_000, // for one message, and not for five
    });
    const report = await clock.until(stopped);
    assertEquals(worked, [1, 2, 3, 4, 5]);
    assertEquals([report.complete, report.processed, report.left], [true, 5, 0]);
  });

  it("can be cut short: what is begun goes back", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    const abort = new AbortController();
    const { agent } = await enrolRecorder(bus, "worker-1", {
      handlers: {
        task: () => {
          abort.abort(new Error("enough"));
          return new Promise(() => {});
        },
      },
    });
    await sendTasks(bus, world.sender, "worker-1", 3);
    const report = await shutdownWithCoordination(agent, { signal: abort.signal });
    assertEquals([report.complete, report.left, report.released], [false, 3, 3]);
  });

  it("refuses options that make no sense before anything happens", async () => {
    await using world = await makeWorld();
    const { agent } = await enrolRecorder(world.bus, "worker-1");
    await assertRejects(() => shutdownWithCoordination(agent, { timeoutMs: -1 }), RangeError);
    await assertRejects(() => shutdownWithCoordination(agent, { maxBatch: 0 }), RangeError);
    assertEquals((await world.board.getState("worker-1")).status, "running");
    assertThrows(() => new Board({ staleAfterMs: 0 }), RangeError);
  });
});

describe("the coordinated stop of many agents", () => {
  it("stops them in parallel under one deadline and loses nothing", async () => {
    await using world = await makeWorld();
    const { bus, board, clock } = world;
    const all = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        enrolRecorder(bus, `worker-${i}`, {
          cleanup: [() => clock.sleep(900)],
        })),
    );
    for (const { agent } of all) await sendTasks(bus, world.sender, agent.id, 20);
    const agents = all.map(({ agent }) => agent);
    const reports = await clock.until(shutdownAllCoordinated(agents, { timeoutMs: 5_000 }));
    assert(reports.every(({ complete, durationMs }) => complete && durationMs < 1_000));
    for (const { worked } of all) assertEquals(worked, numbers(20));
    const states = await board.list();
    assertEquals(states.map(({ status }) => status), [
      "running",
      ...Array(5).fill("shutdown_complete"),
    ]);
  });

  it("tells others of all of them by one broadcast, and nothing to one another", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => enrolRecorder(bus, `worker-${i}`)),
    );
    const peer = await enrolRecorder(bus, "peer");
    await shutdownAllCoordinated(all.map(({ agent }) => agent));
    await board.synced();
    assertEquals(peer.told.length, 1);
    const { payload } = peer.told[0]!;
    assertEquals(payload.shutting_down_agents, all.map(({ agent }) => agent.id));
    assertEquals(all.flatMap(({ told }) => told), []);
  });

  it("writes to the board as often for a thousand as for two", async () => {
    const writes = async (count: number) => {
      const store = new MemoryStore();
      await using world = await makeWorld({ board: new Board({ store }) });
      const put = store.write.bind(store);
      let calls = 0;
      const agents = await world.bus.enrolAll(
        Array.from({ length: count }, (_, i) => ({ id: `worker-${i}` })),
      );
      store.write = (entries) => (calls++, put(entries));
      const reports = await shutdownAllCoordinated(agents);
      assert(reports.every(({ complete }) => complete));
      return calls;
    };
    assertEquals(await writes(2), 3);
    assertEquals(await writes(1_000), 3);
  });

  it("takes agents of one bus only", async () => {
    await using one = await makeWorld();
    await using two = await makeWorld();
    await assertRejects(() => shutdownAllCoordinated([one.sender, two.sender]), TypeError);
    assertEquals(await shutdownAllCoordinated([]), []);
  });
});
