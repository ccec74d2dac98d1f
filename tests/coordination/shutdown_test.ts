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

describe("the coordinated stop of one member", () => {
  it("drains the inbox, writes the states, and reports ten steps", async () => {
    await using world = await makeWorld();
    const { bus, board, sender } = world;
    const { member, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, sender, "worker-1", 2);
    const report = await shutdownWithCoordination(member, { timeoutMs: 10_000 });
    assertEquals(worked, numbers(2));
    assert(report.complete);
    assertEquals(report.steps.map(({ name }) => name), [...SHUTDOWN_STEPS]);
    assertEquals([report.processed, report.left], [2, 0]);
    assertEquals(await member.inbox.approximateCount(), 0);
    assertEquals((await board.getState("worker-1")).status, "shutdown_complete");
  });

  for (const count of [5, 10, 50]) {
    it(`drains ${count} messages in order, in batches`, async () => {
      await using world = await makeWorld();
      const { member, worked } = await enrolRecorder(world.bus, "worker-1");
      await sendTasks(world.bus, world.sender, "worker-1", count);
      const report = await shutdownWithCoordination(member, { timeoutMs: 5_000, maxBatch: 7 });
      assertEquals(worked, numbers(count));
      assertEquals([report.complete, report.processed], [true, count]);
    });
  }

  it("notifies every running peer once in the documented format, after the board has the state", async () => {
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
    await bus.send(worker.member, "worker-2", "task", {});
    await shutdownWithCoordination(worker.member);
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

  it("a drain that times out is reported as incomplete, and the other messages stay in the inbox", async () => {
    await using world = await makeWorld();
    const { bus, board, clock } = world;
    const { member, worked } = await enrolRecorder(bus, "slow", {
      handlers: {
        async task({ payload }, { signal }) {
          await clock.sleep(400, { signal });
          worked.push(payload);
        },
      },
    });
    await sendTasks(bus, world.sender, "slow", 5);
    const stopped = shutdownWithCoordination(member, { timeoutMs: 1_000 });
    const report = await clock.until(stopped);
    assertEquals([report.complete, report.processed, report.left], [false, 2, 3]);
    assertEquals(report.steps[3]?.outcome, "timed_out");
    assert(report.durationMs <= 1_000);
    const left = await member.inbox.receive({ maxMessages: 10 });
    assertEquals(left.map(({ body }) => body.payload), numbers(5).slice(2));
    assertEquals(left.map(({ deliveryCount }) => deliveryCount), [1, 1, 1]);
    const { status, metadata } = await board.getState("slow");
    assertEquals([status, metadata?.complete, metadata?.left], ["shutting_down", false, 3]);
  });

  it("messages that were not handled in time go to the successor", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const successor = await enrolRecorder(bus, "next");
    const { member } = await enrolRecorder(bus, "slow", {
      successor: "next",
      handlers: { task: (_, { signal }) => clock.sleep(600, { signal }) },
    });
    await sendTasks(bus, world.sender, "slow", 25);
    const report = await clock.until(shutdownWithCoordination(member, { timeoutMs: 1_000 }));
    assertEquals([report.processed, report.handedOver, report.left], [1, 24, 0]);
    const received = await successor.member.inbox.receive({ maxMessages: 100 });
    assertEquals(received.map(({ body }) => body.payload), numbers(25).slice(1));
  });

  it("runs all steps after one that fails or hangs, and reports the stop as incomplete", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const ran: string[] = [];
    const { member } = await enrolRecorder(bus, "worker-1", {
      onHealth: ({ reason }) => {
        ran.push(reason);
        throw new Error("health system unreachable");
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
    const report = await clock.until(shutdownWithCoordination(member, { timeoutMs: 2_000 }));
    assertEquals(ran, ["shutting_down", "liveness", "first", "second", "shutdown_incomplete"]);
    assertEquals(
      outcomes(report),
      "done done failed done done done timed_out failed done failed",
    );
    assertEquals(String(report.steps[7]?.error), "Error: first failed");
    assert(!report.complete && report.durationMs < 2_000);
  });

  it("runs all other steps when the board is unreachable, and reports the stop as incomplete", async () => {
    const store = new MemoryStore();
    const board = new Board({ log: silentLog, store });
    await using world = await makeWorld({ board });
    const { member, worked } = await enrolRecorder(world.bus, "worker-1");
    await sendTasks(world.bus, world.sender, "worker-1", 3);
    store.write = () => Promise.reject(new Error("away"));
    const report = await shutdownWithCoordination(member);
    assertEquals(
      outcomes(report),
      "failed failed skipped done done done skipped skipped failed skipped",
    );
    assertEquals([worked.length, report.left, report.complete], [3, 0, false]);
  });

  it("shuts down the member's own loop before it drains the inbox", async () => {
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
    const { member, worked } = await enrolRecorder(bus, "worker-1", { inbox, runnable: loop });
    await sendTasks(bus, world.sender, "worker-1", 3);
    const run = loop.run();
    while (began.length === 0) await nextTurn();
    const stopped = shutdownWithCoordination(member);
    for (let i = 0; i < 5; i++) await nextTurn();
    assertEquals(worked, []);
    finish();
    const report = await stopped;
    await run;
    assertEquals([began, worked, report.complete], [[{ id: 1 }], numbers(3).slice(1), true]);
    await inbox.close();
  });

  it("drains messages that peers sent before they were notified", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    const { member, worked } = await enrolRecorder(bus, "worker-1", {
      stopLiveness: async () => {
        await member.inbox.send({ ...envelope, payload: "late" });
      },
    });
    const report = await shutdownWithCoordination(member);
    assertEquals([worked, report.complete, report.left], [["late"], true, 0]);
  });

  it("is complete when a message arrives just after the inbox was empty", async () => {
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
    const { member, worked } = await enrolRecorder(bus, "worker-1", { inbox });
    const report = await shutdownWithCoordination(member);
    assertEquals([report.complete, worked, await count()], [true, ["late"], 0]);
    await inbox.close();
  });

  it("waits for hidden messages and handles them when they become visible", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const { member, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, world.sender, "worker-1", 1);
    const [taken] = await member.inbox.receive();
    const stopped = shutdownWithCoordination(member, { timeoutMs: 1_000 });
    clock.schedule(300, () => void taken!.release());
    const report = await clock.until(stopped);
    assertEquals([report.complete, worked, report.durationMs], [true, [{ id: 1 }], 300]);
  });

  it("is incomplete while another receiver has a message of the inbox", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const { member } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, world.sender, "worker-1", 1);
    const [taken] = await member.inbox.receive();
    const report = await clock.until(shutdownWithCoordination(member, { timeoutMs: 1_000 }));
    assertEquals([report.complete, report.left], [false, 1]);
    await taken!.acknowledge();
  });

  it("releases a batch when handled messages cannot be acknowledged", async () => {
    await using world = await makeWorld();
    const { bus, clock, sender } = world;
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { clock });
    const { member } = await enrolRecorder(bus, "worker-1", { inbox });
    await sendTasks(bus, sender, "worker-1", 20);
    inbox.acknowledgeMany = () => Promise.reject(new Error("away"));
    const report = await shutdownWithCoordination(member);
    assertEquals([report.complete, report.processed, report.left], [false, 0, 20]);
    assertEquals(report.steps[3]?.outcome, "failed");
    const visible = await inbox.receive({ maxMessages: 20 });
    assertEquals(visible.map(({ body }) => body.payload), numbers(20).slice(10));
    await inbox.close();
  });

  it("extends the leases of a batch while handlers run, and handles each message once", async () => {
    await using world = await makeWorld();
    const { bus, clock, sender } = world;
    const worked: unknown[] = [];
    const task = async ({ payload }: BusMessage) => {
      await clock.sleep(3_000);
      worked.push((payload as { id: number }).id);
    };
    const { member } = await enrolRecorder(bus, "slow", { handlers: { task } });
    await sendTasks(bus, sender, "slow", 5);
    const stopped = shutdownWithCoordination(member, {
      timeoutMs: 60_000,
      visibilityTimeoutMs: 4_000, // enough for one message, not for five
    });
    const report = await clock.until(stopped);
    assertEquals(worked, [1, 2, 3, 4, 5]);
    assertEquals([report.complete, report.processed, report.left], [true, 5, 0]);
  });

  it("releases unfinished messages when its signal aborts", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    const abort = new AbortController();
    const { member } = await enrolRecorder(bus, "worker-1", {
      handlers: {
        task: () => {
          abort.abort(new Error("enough"));
          return new Promise(() => {});
        },
      },
    });
    await sendTasks(bus, world.sender, "worker-1", 3);
    const report = await shutdownWithCoordination(member, { signal: abort.signal });
    assertEquals([report.complete, report.left, report.released], [false, 3, 3]);
  });

  it("refuses invalid options before it does anything", async () => {
    await using world = await makeWorld();
    const { member } = await enrolRecorder(world.bus, "worker-1");
    await assertRejects(() => shutdownWithCoordination(member, { timeoutMs: -1 }), RangeError);
    await assertRejects(() => shutdownWithCoordination(member, { maxBatch: 0 }), RangeError);
    assertEquals((await world.board.getState("worker-1")).status, "running");
    assertThrows(() => new Board({ staleAfterMs: 0 }), RangeError);
  });
});

describe("the coordinated stop of many members", () => {
  it("stops members in parallel under one deadline and loses no message", async () => {
    await using world = await makeWorld();
    const { bus, board, clock } = world;
    const all = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        enrolRecorder(bus, `worker-${i}`, {
          cleanup: [() => clock.sleep(900)],
        })),
    );
    for (const { member } of all) await sendTasks(bus, world.sender, member.id, 20);
    const members = all.map(({ member }) => member);
    const reports = await clock.until(shutdownAllCoordinated(members, { timeoutMs: 5_000 }));
    assert(reports.every(({ complete, durationMs }) => complete && durationMs < 1_000));
    for (const { worked } of all) assertEquals(worked, numbers(20));
    const states = await board.list();
    assertEquals(states.map(({ status }) => status), [
      "running",
      ...Array(5).fill("shutdown_complete"),
    ]);
  });

  it("notifies the peers once for all stopping members, which get no notification", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => enrolRecorder(bus, `worker-${i}`)),
    );
    const peer = await enrolRecorder(bus, "peer");
    await shutdownAllCoordinated(all.map(({ member }) => member));
    await board.synced();
    assertEquals(peer.told.length, 1);
    const { payload } = peer.told[0]!;
    assertEquals(payload.shutting_down_agents, all.map(({ member }) => member.id));
    assertEquals(all.flatMap(({ told }) => told), []);
  });

  it("writes to the board as often for 1,000 members as for two", async () => {
    const writes = async (count: number) => {
      const store = new MemoryStore();
      await using world = await makeWorld({ board: new Board({ store }) });
      const put = store.write.bind(store);
      let calls = 0;
      const members = await world.bus.enrolAll(
        Array.from({ length: count }, (_, i) => ({ id: `worker-${i}` })),
      );
      store.write = (entries) => (calls++, put(entries));
      const reports = await shutdownAllCoordinated(members);
      assert(reports.every(({ complete }) => complete));
      return calls;
    };
    assertEquals(await writes(2), 3);
    assertEquals(await writes(1_000), 3);
  });

  it("refuses members of different buses", async () => {
    await using one = await makeWorld();
    await using two = await makeWorld();
    await assertRejects(() => shutdownAllCoordinated([one.sender, two.sender]), TypeError);
    assertEquals(await shutdownAllCoordinated([]), []);
  });
});
