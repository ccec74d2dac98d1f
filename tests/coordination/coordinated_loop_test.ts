import { afterEach, describe, it } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { nextTurn } from "../../src/clock.ts";
import {
  Board,
  Bus,
  type BusMessage,
  CoordinatedLoop,
  coordinatedLoops,
  type MemberHandler,
} from "../../src/coordination/mod.ts";
import { inboxLoop } from "../../src/coordination/coordinated_loop.ts";
import { JointStop } from "../../src/coordination/shutdown.ts";
import { isBalanced } from "../../src/lifecycle/runnable.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { StepLoop } from "../../src/loops/step_loop.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FakeRuntime, lifecycleCases, VirtualClock } from "../../src/testing/mod.ts";
import { enrolRecorder, makeWorld, sendTasks } from "./_world.ts";

describe("a coordinated loop is a Runnable", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const clock = new VirtualClock();
        const bus = new Bus({ board: new Board({ clock, log: silentLog, pollIntervalMs: 1e9 }) });
        const inbox = new InMemoryMailbox<BusMessage>("worker-1", { clock });
        const options = { id: "worker-1", inbox };
        const inner = inboxLoop(options, inbox, bus);
        const runnable = new CoordinatedLoop(bus, options, inner, new JointStop({}));
        // The bus watches the board until it is closed, so one timer stays.
        const quiet = new Proxy(clock, {
          get(target, key) {
            if (key === "pending") return Math.max(0, target.pending - 1);
            const value = Reflect.get(target, key, target);
            return typeof value === "function" ? value.bind(target) : value;
          },
        });
        return { runnable, clock: quiet };
      }));
  }
});

describe("members in a LoopGroup", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("members of a group stop in the ten steps on SIGTERM, and their peers are notified once", async () => {
    await using world = await makeWorld();
    const { bus, board, sender, clock } = world;
    const peer = await enrolRecorder(bus, "peer");
    const worked: unknown[] = [];
    const ids = ["worker-1", "worker-2", "worker-3"];
    const loops = await coordinatedLoops(
      bus,
      ids.map((id) => ({ id, handlers: { task: ({ payload }) => void worked.push(payload) } })),
    );
    const runtime = new FakeRuntime();
    const group = new LoopGroup(loops, {
      runtime,
      clock,
      log: silentLog,
      watchdogThresholdMs: false,
    });
    const run = group.run();
    while ((await board.list()).length < 5) await nextTurn();
    await board.synced();
    for (const id of ids) await sendTasks(bus, sender, id, 4);
    runtime.send("SIGTERM");
    const report = await run;
    assertEquals(report.outcome, "drained");
    assertEquals(worked.length, 12);
    assert(loops.every((loop) => loop.report?.complete && isBalanced(loop.counts)));
    assertEquals(report.counts.acknowledged, 12);
    await board.synced();
    assertEquals(peer.told.map(({ payload }) => payload.shutting_down_agents), [ids]);
    const states = (await board.list()).map(({ agentId, status }) => `${agentId} ${status}`);
    assertEquals(states, [
      "peer running",
      "sender running",
      ...ids.map((id) => `${id} shutdown_complete`),
    ]);
  });

  it("a member stops completely when its own loop ends or fails, and can run again", async () => {
    await using world = await makeWorld();
    const { bus, board, clock } = world;
    let steps = 0;
    const runnable = new StepLoop("steps", () => {
      if (++steps === 2) throw new Error("step 2 failed");
    }, { clock });
    const [loop] = await coordinatedLoops(bus, [{ id: "worker-1", runnable }]);
    await loop!.run({ maxIterations: 1 });
    assertEquals((await board.getState("worker-1")).status, "shutdown_complete");
    const failure = await loop!.run().catch((error) => error);
    assertEquals(String(failure), "Error: step 2 failed");
    assertEquals((await board.getState("worker-1")).status, "shutdown_complete");
    await loop!.run({ maxIterations: 1 });
    assertEquals([steps, loop!.report?.complete], [3, true]);
  });

  it("shutdown returns false when messages are left", async () => {
    await using world = await makeWorld();
    const { bus, sender, clock } = world;
    const began: unknown[] = [];
    const [loop] = await coordinatedLoops(bus, [{
      id: "slow",
      handlers: {
        task({ payload }, { signal }) {
          began.push(payload);
          return clock.sleep(60_000, { signal });
        },
      },
    }]);
    const run = loop!.run();
    while (bus.members.length < 2) await nextTurn();
    await world.board.synced();
    await sendTasks(bus, sender, "slow", 3);
    while (began.length === 0) await nextTurn();
    const stopped = loop!.shutdown({ timeoutMs: 1_000 });
    for (let i = 0; i < 10; i++) await nextTurn(); // lets everything run that needs no time
    assertEquals(await clock.until(stopped), false);
    await clock.until(run);
    assertEquals([loop!.report?.complete, loop!.report?.left], [false, 3]);
    assert(isBalanced(loop!.counts), JSON.stringify(loop!.counts));
  });

  for (
    const [what, options, outcome, exitCode] of [
      ["has no time for its messages", {}, "timed_out", 124],
      [
        "fails to clean up",
        { cleanup: [() => Promise.reject(new Error("disk full"))] },
        "failed",
        1,
      ],
    ] as const
  ) {
    it(`the outcome of the group is ${outcome} when a member ${what}`, async () => {
      await using world = await makeWorld();
      const { bus, board, sender, clock } = world;
      const began: unknown[] = [];
      const task: MemberHandler = async ({ payload }, { signal }) => {
        began.push(payload);
        if (outcome === "timed_out") await clock.sleep(600_000, { signal });
      };
      const loops = await coordinatedLoops(bus, [
        { id: "good", handlers: {} },
        { id: "bad", handlers: { task }, ...options },
      ]);
      const runtime = new FakeRuntime();
      const group = new LoopGroup(loops, {
        runtime,
        clock,
        log: silentLog,
        watchdogThresholdMs: false,
        onFailure: "ignore",
      });
      const run = group.run();
      while ((await board.list()).length < 3) await nextTurn();
      await board.synced();
      await sendTasks(bus, sender, "bad", 1);
      while (began.length === 0) await nextTurn();
      const stopped = group.shutdown();
      const report = await clock.until(run);
      assertEquals(loops.map((loop) => loop.report?.complete), [true, false]);
      assertEquals([report.outcome, report.exitCode], [outcome, exitCode]);
      assertEquals(await stopped, outcome === "failed");
      const text = String(report);
      assertStringIncludes(text, 'member "bad" did not stop completely: ');
      assertStringIncludes(text, outcome === "failed" ? "disk full" : "left in the inbox: 1");
      assert(!text.includes('member "good"'), text);
    });
  }

  it("a running member dead-letters malformed messages and those without a handler", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const worked: unknown[] = [];
    const [loop] = await coordinatedLoops(bus, [{
      id: "worker-1",
      handlers: { task: ({ payload }) => void worked.push(payload) },
    }]);
    const inbox = await bus.inboxOf("worker-1");
    await inbox.send("nonsense" as unknown as BusMessage);
    const run = loop!.run();
    while (bus.members.length < 2) await nextTurn();
    await world.board.synced();
    await bus.send(sender, "worker-1", "unknown", {});
    await bus.send(sender, "worker-1", "task", { id: 1 });
    while (worked.length === 0) await nextTurn();
    await loop!.shutdown();
    await run;
    const letters = await inbox.deadLetters!.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => body.reason), ["schema", "unknown_type"]);
  });
});
