import { afterEach, describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { LoopGroup, type LoopGroupOptions, type Runnable } from "../../mod.ts";
import { InMemoryMailbox, MailboxLoop, ShutdownCoordinator, StepLoop } from "../../mod.ts";
import { silentLog } from "../../mod.ts";
import { ServiceLoop } from "../../src/service/service_loop.ts";
import { Bench } from "./_group.ts";

/**
 * Work that waits for its own end. Nothing here moves the virtual clock, so that a call that waits until
 * the deadline never returns.
 */
describe("a call from inside the work that it would wait for", () => {
  afterEach(() => ShutdownCoordinator.reset());

  const setUp = () => {
    const bench = new Bench();
    const { clock, runtime } = bench;
    const group = (loops: readonly Runnable[], options: LoopGroupOptions = {}) =>
      new LoopGroup(loops, { clock, runtime, log: silentLog, ...options });
    return { bench, clock, runtime, group };
  };

  it("group.shutdown() in a handler stops the group after that message", async () => {
    const { clock, group } = setUp();
    const mailbox = new InMemoryMailbox<string>("orders", { clock });
    await mailbox.sendMany(["stop", "never handled"]);
    const answers: unknown[] = [];
    const loop = new MailboxLoop<string>({
      mailbox,
      clock,
      async handler() {
        await Promise.resolve();
        answers.push(await orders.shutdown());
        answers.push("goes on");
      },
    });
    const orders = group([loop]);
    const report = await orders.run();
    assertEquals(answers, [false, "goes on"]);
    assertEquals([report.outcome, report.counts.acknowledged, report.stopMs], ["drained", 1, 0]);
    assertEquals(clock.pending, 0);
  });

  it("loop.shutdown() in a handler of a loop without a group stops it after that message", async () => {
    const { clock } = setUp();
    const mailbox = new InMemoryMailbox<string>("orders", { clock });
    await mailbox.sendMany(["stop", "never handled"]);
    const answers: unknown[] = [];
    const loop: MailboxLoop<string> = new MailboxLoop<string>({
      mailbox,
      clock,
      handler: async () => void answers.push(await loop.shutdown()),
    });
    await loop.run();
    await clock.settle();
    assertEquals([answers, loop.counts.acknowledged, clock.pending], [[false], 1, 0]);
  });

  it("loop.pause() and group.pause() in a step return immediately and hold the next step", async () => {
    const { clock, group } = setUp();
    const steps: string[] = [];
    const loop = new StepLoop("steps", async ({ iteration }) => {
      if (iteration === 1) await loop.pause();
      else await all.pause();
      steps.push(`step ${iteration}`);
    }, { clock });
    const all = group([loop]);
    const run = all.run();
    await clock.settle();
    assertEquals(steps, ["step 1"]);
    all.resume();
    await clock.settle();
    assertEquals(steps, ["step 1", "step 2"]);
    assertEquals(await clock.until(all.shutdown()), true);
    await run;
  });

  it("coordinator.trigger() in a step stops the group after that step", async () => {
    const { clock, runtime, group } = setUp();
    const coordinator = ShutdownCoordinator.install({ runtime, clock, log: silentLog });
    const loop = new StepLoop("steps", () => coordinator.trigger("enough"), { clock });
    const report = await group([loop]).run();
    assertEquals([report.outcome, report.reason.text, clock.pending], ["drained", "enough", 0]);
  });

  for (const when of ["start", "stop"] as const) {
    it(`group.shutdown() in the ${when} of resources does not hold the stop`, async () => {
      const { clock, group } = setUp();
      const answers: unknown[] = [];
      const hook = async () => void answers.push(await all.shutdown());
      const resources = [{ name: "database", stop() {}, [when]: hook }];
      const all = group([new StepLoop("steps", () => {}, { clock })], { resources });
      const report = await all.run({ maxIterations: 1 });
      assertEquals([answers, report.outcome, clock.pending], [[false], "drained", 0]);
    });
  }

  it("group.shutdown() as a shutdown callback does not hold main()", async () => {
    const { clock, runtime, group } = setUp();
    const coordinator = ShutdownCoordinator.install({ runtime, clock, log: silentLog });
    const loop = new StepLoop("steps", ({ sleep }) => sleep(60_000), { clock });
    const all = group([loop], { drainView: false });
    const answers: unknown[] = [];
    coordinator.register(async () => void answers.push(await all.shutdown()));
    const ended = all.main().catch(() => {});
    await clock.settle();
    runtime.send("SIGTERM");
    await ended;
    assertEquals([answers, runtime.exitCodes], [[true], [0]]);
  });

  it("pause() and shutdown() in a request to a ServiceLoop do not hold the answer", async () => {
    let answer: Promise<string> | undefined;
    const service: ServiceLoop = new ServiceLoop("tea", async () => {
      await service.pause();
      return new Response(String(await all.shutdown()));
    }, {
      port: 0,
      hostname: "127.0.0.1",
      onListen: ({ port }) =>
        void (answer = fetch(`http://127.0.0.1:${port}`).then((it) => it.text())),
    });
    const all: LoopGroup = new LoopGroup([service]);
    const report = await all.run({ installSignals: false });
    assertEquals([await answer, report.outcome], ["false", "drained"]);
  });

  it("a deadline still cancels work that asked for the stop and then hangs", async () => {
    const { clock } = setUp();
    const loop = new StepLoop("steps", async ({ signal }) => {
      await loop.shutdown({ timeoutMs: 1_000 });
      await clock.sleep(Infinity, { signal });
    }, { clock });
    await clock.until(loop.run());
    assertEquals(clock.monotonic(), 900);
  });
});

describe("a call from outside of the work that it waits for", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("shutdown() of another group in a handler waits for that group", async () => {
    const { clock } = new Bench();
    const other = new StepLoop("other", () => clock.sleep(500), { clock });
    const running = other.run();
    let answer: unknown;
    const loop = new StepLoop("steps", async () => void (answer = await other.shutdown()), {
      clock,
    });
    await clock.until(loop.run({ maxIterations: 1 }));
    assertEquals([answer, clock.monotonic()], [true, 500]);
    await running;
  });

  it("shutdown() in work that an ended run had started waits", async () => {
    const { clock } = new Bench();
    let later: Promise<boolean> | undefined;
    let ms = 0;
    const loop = new StepLoop("steps", () => {
      later ??= clock.sleep(1_000).then(() => loop.shutdown());
      return clock.sleep(ms);
    }, { clock });
    await clock.until(loop.run({ maxIterations: 1 }));
    ms = 5_000;
    const again = loop.run();
    assertEquals(await clock.until(later!), true);
    await again;
    assertEquals(clock.monotonic(), 5_000);
  });
});
