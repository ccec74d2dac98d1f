import { afterEach, describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { isTerminatingError, TerminatingError } from "../../src/errors.ts";
import { silentLog } from "../../src/log.ts";
import {
  type InstallOptions,
  ShutdownCoordinator,
} from "../../src/lifecycle/shutdown_coordinator.ts";
import { ExitError, FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Bench } from "./_group.ts";

function install(options: InstallOptions = {}) {
  const runtime = new FakeRuntime();
  const clock = new VirtualClock();
  const coordinator = ShutdownCoordinator.install({ runtime, clock, log: silentLog, ...options });
  return { coordinator, runtime, clock };
}

describe("ShutdownCoordinator", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("a process has one coordinator, however often it is installed", () => {
    const { coordinator, runtime } = install();
    assertStrictEquals(ShutdownCoordinator.install({ runtime }), coordinator);
    assertStrictEquals(ShutdownCoordinator.get(), coordinator);
    assertEquals(runtime.listening, 2, "one listener for each of SIGTERM and SIGINT");
  });

  it("reset() removes all listeners, and the coordinator can be installed again", () => {
    const { coordinator, runtime } = install();
    runtime.send("SIGTERM");
    ShutdownCoordinator.reset();
    assertEquals(runtime.listening, 0);
    assertEquals(ShutdownCoordinator.get(), undefined);
    const fresh = ShutdownCoordinator.install({ runtime });
    assert(fresh !== coordinator && !fresh.triggered);
  });

  it("a signal calls every callback once, in order, with the reason", async () => {
    const { coordinator, runtime } = install();
    const calls: unknown[] = [];
    coordinator.register((reason) => calls.push(["first", reason.signal]));
    coordinator.register((reason) => calls.push(["second", reason.kind]));
    runtime.send("SIGTERM");
    assertEquals(calls, [], "the signal's own stack does no work");
    await coordinator.trigger();
    assertEquals(calls, [["first", "SIGTERM"], ["second", "signal"]]);
  });

  it("the signal of the coordinator aborts immediately with a TerminatingError", () => {
    const { coordinator, runtime } = install();
    assertEquals([coordinator.triggered, coordinator.signal.aborted], [false, false]);
    runtime.send("SIGINT");
    assertEquals([coordinator.triggered, coordinator.signal.aborted], [true, true]);
    assertInstanceOf(coordinator.signal.reason, TerminatingError);
    assertEquals(coordinator.signal.reason.code, 5006);
    assert(isTerminatingError(coordinator.signal.reason));
  });

  it("a second trigger() calls no callback again", async () => {
    const { coordinator } = install();
    let calls = 0;
    coordinator.register(() => void calls++);
    await Promise.all([coordinator.trigger("first"), coordinator.trigger("second")]);
    await coordinator.trigger("third");
    assertEquals(calls, 1);
    assertEquals(coordinator.reason?.text, "first");
  });

  it("trigger() waits for slow callbacks", async () => {
    const { coordinator, clock } = install();
    let ended = false;
    coordinator.register(async () => {
      await clock.sleep(500);
      ended = true;
    });
    await clock.until(coordinator.trigger());
    assert(ended);
  });

  it("a callback that is registered after the stop began is called immediately", async () => {
    const { coordinator } = install();
    await coordinator.trigger();
    let called = false;
    coordinator.register(() => called = true);
    await coordinator.trigger();
    assert(called);
  });

  it("a callback that throws is reported by name, and the others are called", async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (message: string) => void errors.push(message) };
    const { coordinator } = install({ log });
    const calls: string[] = [];
    coordinator.register(function throwing() {
      throw new Error("bad");
    });
    coordinator.register(function rejecting() {
      return Promise.reject(new Error("worse"));
    });
    coordinator.register(() => calls.push("last"));
    await coordinator.trigger();
    assertEquals(calls, ["last"]);
    assertEquals(errors, [
      "a shutdown callback failed: throwing",
      "a shutdown callback failed: rejecting",
    ]);
  });

  it("a callback that is registered twice is called once and awaited", async () => {
    const { coordinator, clock } = install();
    let calls = 0;
    const closePool = async () => {
      calls++;
      await clock.sleep(calls * 500);
    };
    coordinator.register(closePool);
    coordinator.register(closePool);
    assertEquals(coordinator.registered, 1);
    const triggered = coordinator.trigger();
    coordinator.register(closePool);
    const unfinished = await clock.until(coordinator.unfinished(100));
    assertEquals(unfinished, ["closePool"]);
    await clock.until(triggered);
    assertEquals([calls, clock.monotonic()], [1, 500]);
    coordinator.unregister(closePool);
    assertEquals(coordinator.registered, 0);
  });

  it("an unregistered callback is not called", async () => {
    const { coordinator } = install();
    const calls: string[] = [];
    const gone = () => calls.push("gone");
    coordinator.register(gone);
    coordinator.register(() => calls.push("kept"));
    coordinator.unregister(gone);
    coordinator.unregister(() => "never registered");
    await coordinator.trigger();
    assertEquals(calls, ["kept"]);
  });

  it("a registered loop.shutdown stops the loop", async () => {
    const bench = new Bench();
    const { coordinator, runtime } = install();
    const loop = bench.idle("worker");
    coordinator.register(loop.shutdown);
    const run = loop.run();
    await bench.clock.settle();
    runtime.send("SIGTERM");
    await bench.clock.until(run);
    assertEquals([loop.running, bench.clock.pending], [false, 0]);
  });

  describe("signals after the first", () => {
    const busy = (options?: InstallOptions) => {
      const installed = install(options);
      installed.coordinator.register(() => new Promise(() => {}));
      installed.runtime.send("SIGINT");
      return installed;
    };

    it("a repeated signal within 200 ms, of either kind, counts once", async () => {
      const { coordinator, runtime, clock } = busy();
      await clock.advance(1);
      runtime.send("SIGINT");
      await clock.advance(198);
      runtime.send("SIGTERM");
      assert(!coordinator.forceSignal.aborted);
      await clock.advance(1);
      runtime.send("SIGINT");
      assert(coordinator.forceSignal.aborted);
    });

    it("the second signal forces the stop and the third ends the process with 128 + n", async () => {
      const { coordinator, runtime, clock } = busy();
      await clock.advance(1_000);
      runtime.send("SIGTERM");
      assertEquals(coordinator.forceSignal.reason.signal, "SIGTERM");
      assertEquals(runtime.exitCodes, []);
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGINT"), ExitError);
      assertEquals(runtime.exitCodes, [130]);
    });

    it("the second signal can end the process instead", async () => {
      const { runtime, clock } = busy({ onSecondSignal: "exit" });
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGTERM"), ExitError);
      assertEquals(runtime.exitCodes, [143]);
    });

    it("all later signals can be ignored instead", async () => {
      const { coordinator, runtime, clock } = busy({ onSecondSignal: "ignore" });
      for (let i = 0; i < 5; i++) {
        await clock.advance(1_000);
        runtime.send("SIGTERM");
      }
      assertEquals([coordinator.forceSignal.aborted, runtime.exitCodes.length], [false, 0]);
    });

    it("a later signal ends the process when nothing is left to stop", async () => {
      const { coordinator, runtime, clock } = install();
      coordinator.register(() => {});
      runtime.send("SIGTERM");
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGTERM"), ExitError);
      assertEquals(runtime.exitCodes, [143]);
    });
  });

  it("unfinished() names the callbacks that have not ended in time", async () => {
    const { coordinator, clock } = install();
    const own = () => new Promise(() => {});
    coordinator.register(own);
    coordinator.register(function closeDatabase() {
      return new Promise(() => {});
    });
    coordinator.register(function quick() {});
    coordinator.trigger();
    assertEquals(await clock.until(coordinator.unfinished(500, own)), ["closeDatabase"]);
    assertEquals(clock.monotonic(), 500);
  });

  it("an unknown signal or policy is refused before anything is installed", () => {
    const runtime = new FakeRuntime();
    const bad = { runtime, signals: ["SIGTERM", "SIGFOO"] } as unknown as InstallOptions;
    assertThrows(() => ShutdownCoordinator.install(bad), TypeError, `got "SIGFOO"`);
    const kill = { runtime, signals: ["SIGKILL"] } as unknown as InstallOptions;
    assertThrows(() => ShutdownCoordinator.install(kill), TypeError, `"SIGHUP"`);
    const policy = { runtime, onSecondSignal: "panic" } as unknown as InstallOptions;
    assertThrows(() => ShutdownCoordinator.install(policy), TypeError, `got "panic"`);
    assertEquals([runtime.listening, ShutdownCoordinator.get()], [0, undefined]);
    const { coordinator } = install({ runtime });
    assertThrows(() => coordinator.register("stop" as never), TypeError, `got "stop"`);
  });

  it("no listener stays when the platform refuses one of the signals", () => {
    const runtime = new FakeRuntime();
    const { onSignal } = runtime;
    runtime.onSignal = (signal, listener) => {
      if (signal === "SIGHUP") throw new TypeError("SIGHUP is not supported here");
      return onSignal.call(runtime, signal, listener);
    };
    const signals = ["SIGTERM", "SIGHUP"] as const;
    assertThrows(() => ShutdownCoordinator.install({ runtime, signals }), TypeError, "SIGHUP");
    assertEquals([runtime.listening, ShutdownCoordinator.get()], [0, undefined]);
  });
});
