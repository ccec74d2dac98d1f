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

  it("is one per process, however often it is installed", () => {
    const { coordinator, runtime } = install();
    assertStrictEquals(ShutdownCoordinator.install({ runtime }), coordinator);
    assertStrictEquals(ShutdownCoordinator.get(), coordinator);
    assertEquals(runtime.listening, 2, "one listener for each of SIGTERM and SIGINT");
  });

  it("leaves nothing listening after reset, and can be installed anew", () => {
    const { coordinator, runtime } = install();
    runtime.send("SIGTERM");
    ShutdownCoordinator.reset();
    assertEquals(runtime.listening, 0);
    assertEquals(ShutdownCoordinator.get(), undefined);
    const fresh = ShutdownCoordinator.install({ runtime });
    assert(fresh !== coordinator && !fresh.triggered);
  });

  it("turns a signal into one call of every callback, in order, with the reason", async () => {
    const { coordinator, runtime } = install();
    const calls: unknown[] = [];
    coordinator.register((reason) => calls.push(["first", reason.signal]));
    coordinator.register((reason) => calls.push(["second", reason.kind]));
    runtime.send("SIGTERM");
    assertEquals(calls, [], "the signal's own stack does no work");
    await coordinator.trigger();
    assertEquals(calls, [["first", "SIGTERM"], ["second", "signal"]]);
  });

  it("aborts its signal with a TerminatingError at the first moment", () => {
    const { coordinator, runtime } = install();
    assertEquals([coordinator.triggered, coordinator.signal.aborted], [false, false]);
    runtime.send("SIGINT");
    assertEquals([coordinator.triggered, coordinator.signal.aborted], [true, true]);
    assertInstanceOf(coordinator.signal.reason, TerminatingError);
    assertEquals(coordinator.signal.reason.code, 5006);
    assert(isTerminatingError(coordinator.signal.reason));
  });

  it("calls nobody again at a second trigger", async () => {
    const { coordinator } = install();
    let calls = 0;
    coordinator.register(() => void calls++);
    await Promise.all([coordinator.trigger("first"), coordinator.trigger("second")]);
    await coordinator.trigger("third");
    assertEquals(calls, 1);
    assertEquals(coordinator.reason?.text, "first");
  });

  it("waits for callbacks that take their time", async () => {
    const { coordinator, clock } = install();
    let ended = false;
    coordinator.register(async () => {
      await clock.sleep(500);
      ended = true;
    });
    await clock.until(coordinator.trigger());
    assert(ended);
  });

  it("calls whoever registers after the stop began at once", async () => {
    const { coordinator } = install();
    await coordinator.trigger();
    let called = false;
    coordinator.register(() => called = true);
    await coordinator.trigger();
    assert(called);
  });

  it("lets one throwing callback starve nobody, and reports it by name", async () => {
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

  it("calls a callback that was registered twice once, and waits for it until it ends", async () => {
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

  it("does not call what was unregistered", async () => {
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

  it("stops a single loop that registered its shutdown", async () => {
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

    it("a repeat within 200 ms, of either kind, is the same signal", async () => {
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

    it("the second forces and the third ends the process with 128 + n", async () => {
      const { coordinator, runtime, clock } = busy();
      await clock.advance(1_000);
      runtime.send("SIGTERM");
      assertEquals(coordinator.forceSignal.reason.signal, "SIGTERM");
      assertEquals(runtime.exitCodes, []);
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGINT"), ExitError);
      assertEquals(runtime.exitCodes, [130]);
    });

    it("the second can end the process instead", async () => {
      const { runtime, clock } = busy({ onSecondSignal: "exit" });
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGTERM"), ExitError);
      assertEquals(runtime.exitCodes, [143]);
    });

    it("all can be ignored instead", async () => {
      const { coordinator, runtime, clock } = busy({ onSecondSignal: "ignore" });
      for (let i = 0; i < 5; i++) {
        await clock.advance(1_000);
        runtime.send("SIGTERM");
      }
      assertEquals([coordinator.forceSignal.aborted, runtime.exitCodes.length], [false, 0]);
    });

    it("one that finds nothing left to stop ends the process", async () => {
      const { coordinator, runtime, clock } = install();
      coordinator.register(() => {});
      runtime.send("SIGTERM");
      await clock.advance(1_000);
      assertThrows(() => runtime.send("SIGTERM"), ExitError);
      assertEquals(runtime.exitCodes, [143]);
    });
  });

  it("names the callbacks that have not ended in time", async () => {
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

  it("refuses an unknown signal or policy before it listens to anything", () => {
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

  it("listens to nothing when the platform refuses one of the signals", () => {
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
