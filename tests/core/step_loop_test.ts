import { describe, it } from "node:test";
import { assert, assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { CancelledError } from "../../src/errors.ts";
import { StepLoop } from "../../src/loops/step_loop.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Bench } from "./_group.ts";

describe("StepLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const clock = new VirtualClock();
        return { clock, runnable: new StepLoop("loop", ({ sleep }) => sleep(50), { clock }) };
      }));
  }

  it("a loop ends after maxIterations", async () => {
    const { clock, ...bench } = new Bench();
    const seen: number[] = [];
    const loop = new StepLoop("counter", async ({ iteration, sleep }) => {
      seen.push(iteration);
      await sleep(1_000);
    }, { clock });
    await clock.until(loop.run({ maxIterations: 3 }));
    assertEquals(seen, [1, 2, 3]);
    assertEquals(clock.monotonic(), 3_000);
    assertEquals(bench.runtime.listening, 0, "a single loop installs no signals");
  });

  it("a loop ends when a step returns false", async () => {
    const { clock } = new Bench();
    let steps = 0;
    await clock.until(new StepLoop("once", () => ++steps < 2, { clock }).run());
    assertEquals(steps, 2);
  });

  it("a stop waits for the step in flight", async () => {
    const bench = new Bench();
    let completed = false;
    const loop = bench.loop("slow", async () => {
      await bench.clock.sleep(2_000);
      completed = true;
    });
    const run = loop.run();
    await bench.clock.advance(100);
    assertEquals(await bench.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    assert(completed, "the step finished");
    assertEquals(bench.clock.monotonic(), 2_000, "and nothing waited longer than it");
    await run;
  });

  it("shutdown() returns false at its timeout, and the loop continues until its work has ended", async () => {
    const bench = new Bench();
    const loop = bench.busy("slow", 8_000);
    const run = loop.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(loop.shutdown({ timeoutMs: 5_000 })), false);
    assertEquals(bench.clock.monotonic(), 5_000);
    assertEquals(loop.running, true);
    await bench.clock.until(run);
    assertEquals(bench.clock.monotonic(), 8_000);
  });

  it("a step is cancelled near the deadline, once and with a typed reason", async () => {
    const bench = new Bench();
    const reasons: unknown[] = [];
    const loop = bench.loop("obedient", async ({ signal, stopping }) => {
      signal.addEventListener("abort", () => reasons.push(signal.reason));
      await bench.clock.sleep(Infinity, { signal });
      assert(stopping.aborted);
    });
    const run = loop.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    assertEquals(bench.clock.monotonic(), 4_500, "a tenth is kept for giving work back");
    await run;
    assertEquals(reasons.length, 1);
    assertInstanceOf(reasons[0], CancelledError);
    assertEquals((reasons[0] as CancelledError).reason, "deadline");
  });

  it("the earliest timeout of several shutdown() calls decides when work is cancelled", async () => {
    const bench = new Bench();
    const loop = bench.obedient("obedient");
    const run = loop.run();
    await bench.clock.settle();
    const patient = loop.shutdown({ timeoutMs: 60_000 });
    assertEquals(await bench.clock.until(loop.shutdown({ timeoutMs: 1_000 })), true);
    assertEquals(await patient, true);
    assertEquals(bench.clock.monotonic(), 900);
    assertEquals(bench.clock.pending, 0);
    await run;
  });

  it("sleep() ends immediately when a stop begins", async () => {
    const bench = new Bench();
    const loop = bench.idle("idle");
    const run = loop.run();
    await bench.clock.advance(7);
    await loop.shutdown();
    await run;
    assertEquals(bench.clock.monotonic(), 7, "no time passed during the stop");
    assertEquals(bench.clock.pending, 0);
  });

  it("a loop fails with the error of its step and can be run again", async () => {
    const bench = new Bench();
    const loop = bench.failing("fragile", 10);
    await assertRejects(() => bench.clock.until(loop.run()), Error, "fragile broke");
    assertEquals(loop.running, false);
    await assertRejects(() => bench.clock.until(loop.run()), Error, "fragile broke");
  });

  it("a heartbeat follows every step", async () => {
    const bench = new Bench();
    const loop = bench.busy("steady", 100);
    const run = loop.run();
    await bench.clock.advance(1_050);
    assertEquals(loop.heartbeat.ageMs, 50);
    await bench.clock.until(loop.shutdown());
    await run;
  });

  it("a paused loop takes no step until resume", async () => {
    const bench = new Bench();
    let steps = 0;
    const loop = bench.loop("worker", async () => {
      steps++;
      await bench.clock.sleep(100);
    });
    const run = loop.run();
    await bench.clock.advance(250);
    const drained = loop.pause();
    assertEquals(loop.inFlight.map(({ id, ageMs }) => [id, ageMs]), [["step 3", 50]]);
    await bench.clock.until(drained);
    assertEquals(bench.clock.monotonic(), 300, "drained when the step in flight had ended");
    await bench.clock.advance(10_000);
    assertEquals([steps, loop.running, loop.inFlight.length], [3, true, 0]);
    loop.resume();
    await bench.clock.advance(50);
    assertEquals(steps, 4);
    await bench.clock.until(loop.shutdown());
    await run;
  });

  it("a sleeping step is not in flight and continues after resume", async () => {
    const bench = new Bench();
    const seen: string[] = [];
    const loop = bench.loop("poller", async ({ sleep }) => {
      await sleep(1_000);
      seen.push(`worked at ${bench.clock.monotonic()}`);
      await bench.clock.sleep(10);
    });
    const run = loop.run({ maxIterations: 1 });
    await bench.clock.advance(500);
    assertEquals(loop.inFlight, []);
    await loop.pause();
    await bench.clock.advance(5_000);
    assertEquals(seen, []);
    loop.resume();
    await bench.clock.settle();
    assertEquals(loop.inFlight.map(({ id }) => id), ["step 1"]);
    await bench.clock.until(run);
    assertEquals([seen, loop.inFlight.length], [["worked at 5500"], 0]);
  });

  it("a paused loop can be stopped", async () => {
    const bench = new Bench();
    const loop = bench.idle("idle");
    await loop.pause();
    const run = loop.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(loop.shutdown()), true);
    await run;
    assertEquals(bench.clock.pending, 0);
  });

  it("timers fire although the steps never wait", async () => {
    let steps = 0;
    const loop = new StepLoop("eager", () => void steps++);
    const run = loop.run();
    const timer = new Promise((resolve) => setTimeout(resolve, 1));
    await timer;
    assert(await loop.shutdown({ timeoutMs: 5_000 }));
    await run;
    assert(steps > 0); // on a machine that stood still meanwhile it may be one
  });

  it("invalid options are refused before anything starts", async () => {
    assertThrows(() => new StepLoop("", () => {}), TypeError, `got ""`);
    assertThrows(() => new StepLoop("x", 5 as never), TypeError, "number");
    assertThrows(() => new StepLoop("x", () => {}, { stopOrder: NaN }), RangeError, "NaN");
    const options = { shutdownTimeoutMs: -5 };
    assertThrows(() => new StepLoop("x", () => {}, options), RangeError, "-5");
    const loop = new StepLoop("x", () => false);
    for (const maxIterations of [-1, 1.5, NaN]) {
      await assertRejects(() => loop.run({ maxIterations }), RangeError, String(maxIterations));
    }
    await assertRejects(() => loop.run({ waitTimeMs: -1 }), RangeError, "waitTimeMs");
    assertEquals(loop.running, false);
  });
});
