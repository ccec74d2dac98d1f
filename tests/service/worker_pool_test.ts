import { afterEach, describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { nextTurn } from "../../src/clock.ts";
import { TerminatingError } from "../../src/errors.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { silentLog } from "../../src/log.ts";
import { StepLoop } from "../../src/loops/step_loop.ts";
import {
  CapacityError,
  NoWorkerError,
  type PoolCall,
  UnreachableError,
  WorkerPool,
} from "../../src/service/mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

const failing = (error: Error): PoolCall<string> => () => Promise.reject(error);

describe("retries of a WorkerPool", () => {
  for (
    const [kind, error, attempts] of [
      ["terminating", new TerminatingError("stopping"), 3],
      ["unreachable", new UnreachableError("gone"), 2],
      ["capacity", new CapacityError("full"), 2],
      ["failed", new Error("a bug"), 1],
    ] as const
  ) {
    it(`WorkerPool makes ${attempts} attempts on different workers when they are ${kind}`, async () => {
      await using fixture = await new Fixture(["a", "b", "c", "d"]).start();
      const thrown = await assertRejects(() => fixture.pool.run(failing(error)));
      assertEquals(thrown, error, "what the last one failed with");
      assertEquals(fixture.asked, ["a", "b", "c"].slice(0, attempts).map((id) => `${id} ${kind}`));
      assertEquals(fixture.events.map(({ retried }) => retried).lastIndexOf(true), attempts - 2);
    });
  }

  it("WorkerPool returns the answer of the first worker that has one", async () => {
    await using fixture = await new Fixture(["a", "b"]).start();
    const call: PoolCall<string> = ({ id }, { attempt }) =>
      id === "a"
        ? Promise.reject(new TerminatingError("stopping"))
        : Promise.resolve(`${id}${attempt}`);
    assertEquals(await fixture.pool.run(call), "b2");
    assertEquals(fixture.asked, ["a terminating", "b answered"]);
    assertEquals(await fixture.pool.run(call), "b1", "who is stopping is not asked first");
  });

  it("WorkerPool limits attempts by the last failure", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    const errors = [new TerminatingError("stopping"), new UnreachableError("gone")];
    await assertRejects(
      () => fixture.pool.run((_, { attempt }) => Promise.reject(errors[attempt - 1])),
      UnreachableError,
    );
    assertEquals(fixture.asked, ["a terminating", "b unreachable"]);
  });

  it("WorkerPool makes one attempt for a session, always on the same worker", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    const owners = new Map<string, string>();
    for (let index = 0; index < 60; index++) {
      const sessionId = `session ${index % 30}`;
      const error = new TerminatingError("stopping");
      await assertRejects(() => fixture.pool.run(failing(error), { sessionId }), TerminatingError);
      assertEquals(fixture.events.length, index + 1, "one attempt each");
      const owner = fixture.events[index]!.worker;
      assertEquals(owners.get(sessionId) ?? owner, owner);
      owners.set(sessionId, owner);
    }
    assertEquals(new Set(owners.values()).size, 3, "sessions are spread");
  });

  it("WorkerPool makes one attempt for a request with a workerId, and throws for an unknown one", async () => {
    await using fixture = await new Fixture(["a", "b"]).start();
    const options = { workerId: "b" };
    await assertRejects(() => fixture.pool.run(failing(new UnreachableError("gone")), options));
    assertEquals(fixture.asked, ["b unreachable"]);
    await assertRejects(
      () => fixture.pool.run(() => Promise.resolve(), { workerId: "z" }),
      NoWorkerError,
      'has no worker "z"',
    );
  });

  it("WorkerPool makes no further attempt with less than minRemainingMs left, by default 10 s", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    const slowly = (ms: number): PoolCall<void> => async () => {
      await fixture.clock.sleep(ms);
      throw new TerminatingError("stopping");
    };
    const run = async (ms: number, deadlineMs: number, pool = fixture.pool) => {
      fixture.events.length = 0;
      const done = pool.run(slowly(ms), { deadlineMs });
      done.catch(() => {});
      await fixture.clock.advance(60_000);
      await assertRejects(() => done, TerminatingError);
      return fixture.events.map(({ remainingMs }) => remainingMs);
    };
    assertEquals(await run(5_001, 15_000), [9_999]);
    assertEquals(await run(5_000, 15_000), [10_000, 5_000]);
    assertEquals(await run(0, 9_000), [9_000], "the first attempt is always made");
  });

  it("WorkerPool skips the excluded workers", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    const error = new TerminatingError("stopping");
    await assertRejects(
      () => fixture.pool.run(failing(error), { exclude: ["b"] }),
      TerminatingError,
    );
    assertEquals(fixture.asked, ["a terminating", "c terminating"]);
    await assertRejects(
      () => fixture.pool.run(failing(error), { exclude: ["a", "b", "c"] }),
      NoWorkerError,
      "it has 3 workers, and 3 are excluded",
    );
  });
});

describe("the deadline of a WorkerPool", () => {
  it("WorkerPool rejects at the deadline, also when the call ignores its signal", async () => {
    await using fixture = await new Fixture(["a", "b"]).start();
    let aborted = false;
    const done = fixture.pool.run((_, { signal }) => {
      signal.addEventListener("abort", () => aborted = true);
      return new Promise(() => {});
    }, { deadlineMs: 2_000 });
    done.catch(() => {});
    await fixture.clock.advance(2_000);
    const error = await assertRejects(() => done, Error, "longer than its deadline of 2000 ms");
    assertEquals([error.name, aborted], ["DeadlineExceededError", true]);
    assertEquals(fixture.asked, ["a deadline"]);
    assertEquals(fixture.pool.workers.map(({ inFlight }) => inFlight), [0, 0]);
  });

  it("WorkerPool rejects when the signal of the caller aborts", async () => {
    await using fixture = await new Fixture(["a", "b"]).start();
    const controller = new AbortController();
    const done = fixture.pool.run(() => new Promise(() => {}), { signal: controller.signal });
    await fixture.clock.settle();
    controller.abort(new Error("bored"));
    await assertRejects(() => done, Error, "bored");
    await assertRejects(
      () => fixture.pool.run(() => Promise.resolve(), controller),
      Error,
      "bored",
    );
    assertEquals(fixture.asked, ["a aborted", "b aborted"]);
  });
});

describe("the choice of a WorkerPool", () => {
  it("WorkerPool chooses equal workers in turn", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    assertEquals(await fixture.order(6), "abcabc");
  });

  it("WorkerPool chooses the worker with the most free slots, less the requests since its report", async () => {
    const fixture = new Fixture(["a", "b"]);
    fixture.health["a"] = { healthy: true, freeSlots: 4 };
    fixture.health["b"] = { healthy: true, freeSlots: 2 };
    await fixture.start();
    const hold = deferred();
    assertEquals(await fixture.order(2, hold.promise), "aa");
    const rest = await fixture.order(4, hold.promise);
    assertEquals([...rest].sort().join(""), "aabb", rest);
    assertEquals(fixture.pool.workers.map(({ freeSlots }) => freeSlots), [0, 0]);
    hold.resolve();
    await fixture.clock.settle();
    assertEquals(fixture.pool.workers.map(({ freeSlots }) => freeSlots), [4, 2]);
    await fixture[Symbol.asyncDispose]();
  });

  it("WorkerPool chooses the worker with the fewest requests in flight when slots are unknown", async () => {
    await using fixture = await new Fixture(["a", "b", "c"]).start();
    const hold = deferred();
    await fixture.order(3, hold.promise);
    const short = deferred();
    const done = fixture.pool.run(() => short.promise, { workerId: "b" });
    await fixture.clock.settle();
    assertEquals([...await fixture.order(2, hold.promise)].sort().join(""), "ac");
    short.resolve();
    hold.resolve();
    await done;
  });

  it("WorkerPool avoids a worker at capacity until its next health check", async () => {
    const fixture = new Fixture(["a", "b"]);
    fixture.health["a"] = { healthy: true, freeSlots: 5 };
    fixture.health["b"] = { healthy: true, freeSlots: 1 };
    await fixture.start();
    await fixture.pool.run(({ id }) =>
      id === "a" ? Promise.reject(new CapacityError("full")) : Promise.resolve()
    );
    assertEquals(await fixture.order(2), "bb");
    await fixture.clock.advance(1_000);
    assertEquals(await fixture.order(1), "a");
    await fixture[Symbol.asyncDispose]();
  });

  it("WorkerPool chooses among all workers when none is healthy, and reports it", async () => {
    const fixture = new Fixture(["a", "b"]);
    fixture.health["a"] = fixture.health["b"] = false;
    await fixture.start();
    const told: boolean[] = [];
    await fixture.pool.run((_, { noneHealthy, attempt }) => {
      told.push(noneHealthy);
      return attempt === 1 ? Promise.reject(new UnreachableError("gone")) : Promise.resolve();
    });
    assertEquals(told, [true, true]);
    assertEquals(fixture.events.map(({ noneHealthy }) => noneHealthy), [true, true]);
    fixture.health["b"] = true;
    await fixture.clock.advance(5_000);
    assertEquals(await fixture.order(2), "bb");
    assertEquals(fixture.events.at(-1)?.noneHealthy, false);
    await fixture[Symbol.asyncDispose]();
  });
});

describe("health checks of a WorkerPool", () => {
  it("WorkerPool checks each worker every second, also when another one hangs", async () => {
    const fixture = new Fixture(["a", "b", "c"]);
    fixture.health["b"] = "hangs";
    await fixture.start();
    assertEquals(fixture.clock.monotonic(), 1_000, "the start waits for the timeout, no longer");
    await fixture.clock.settle();
    fixture.checks.length = 0;
    await fixture.clock.advance(10_000);
    const of = (id: string) => fixture.checks.filter((it) => it === id).length;
    assertEquals([of("a"), of("c")], [10, 10]);
    assert(of("b") >= 1 && of("b") <= 5, `b was asked ${of("b")} times`);
    assertEquals(fixture.pool.workers.map(({ healthy }) => healthy), [true, false, true]);
    await fixture[Symbol.asyncDispose]();
  });

  it("WorkerPool checks an unhealthy worker less often, and at least every 10 s", async () => {
    const fixture = new Fixture(["a"]);
    fixture.health["a"] = new Error("refused");
    await fixture.start();
    await fixture.clock.advance(60_000);
    const many = fixture.checks.length;
    assert(many >= 8 && many <= 20, `asked ${many} times in a minute`);
    fixture.health["a"] = true;
    await fixture.clock.advance(10_000);
    assertEquals(fixture.pool.workers[0]?.healthy, true);
    fixture.checks.length = 0;
    await fixture.clock.advance(5_000);
    assertEquals(fixture.checks.length, 5, "and in health as often as ever");
    await fixture[Symbol.asyncDispose]();
  });

  it("WorkerPool adds and removes discovered workers, and keeps them when discovery fails or hangs", async () => {
    let found: () => Promise<string[]> = () => Promise.resolve(["http://a:1", "http://b:1"]);
    const changes: string[] = [];
    const fixture = new Fixture([], { workers: () => found(), probe: () => Promise.resolve(true) });
    fixture.pool.on("worker", ({ worker, change }) => changes.push(`${worker} ${change}`));
    await fixture.start();
    const ids = () => fixture.pool.workers.map(({ id }) => id).join();
    assertEquals(ids(), "a:1,b:1");
    found = () => Promise.resolve(["http://b:1", "http://user:secret@c:1/base/"]);
    changes.length = 0;
    await fixture.clock.advance(10_000);
    assertEquals(ids(), "b:1,c:1/base");
    assertEquals(changes, ["a:1 left", "c:1/base joined", "c:1/base healthy"]);
    found = () => Promise.reject(new Error("no DNS"));
    await fixture.clock.advance(10_000);
    found = () => new Promise(() => {});
    await fixture.clock.advance(30_000);
    assertEquals(ids(), "b:1,c:1/base");
    found = () => Promise.resolve([]);
    await fixture.clock.advance(30_000);
    await assertRejects(() => fixture.order(1), NoWorkerError, "it has 0 workers");
    await fixture[Symbol.asyncDispose]();
  });

  it("WorkerPool opens the circuit of a failing worker until a test request succeeds", async () => {
    const changes: string[] = [];
    const fixture = new Fixture(["a", "b"], { circuit: { failures: 3, openMs: 5_000 } });
    fixture.pool.on("worker", ({ worker, change }) => changes.push(`${worker} ${change}`));
    await fixture.start();
    let broken = true;
    const call: PoolCall<void> = ({ id }) =>
      id === "a" && broken ? Promise.reject(new UnreachableError("gone")) : Promise.resolve();
    for (let index = 0; index < 10; index++) await fixture.pool.run(call);
    const asked = () => fixture.events.splice(0).filter(({ worker }) => worker === "a").length;
    assertEquals([asked(), fixture.pool.workers[0]?.circuit], [3, "open"]);
    assertEquals(changes.at(-1), "a circuit_opened");
    await fixture.clock.advance(5_000);
    for (let index = 0; index < 10; index++) await fixture.pool.run(call);
    assertEquals([asked(), fixture.pool.workers[0]?.circuit], [1, "open"], "one trial");
    await fixture.clock.advance(5_000);
    const slow = deferred();
    const trials = Array.from({ length: 4 }, () => fixture.pool.run(() => slow.promise));
    assertEquals(
      fixture.pool.workers.map(({ inFlight }) => inFlight),
      [1, 3],
      "one trial at a time",
    );
    assertEquals(fixture.pool.workers[0]?.circuit, "half_open");
    fixture.clock.schedule(0, () => slow.resolve());
    await Promise.all(trials);
    assertEquals([asked(), fixture.pool.workers[0]?.circuit], [1, "closed"]);
    await Promise.all(Array.from({ length: 4 }, () => fixture.pool.run(call)));
    assertEquals(
      [asked() > 0, fixture.pool.workers[0]?.circuit],
      [true, "closed"],
      "it begins anew",
    );
    for (let index = 0; index < 10; index++) await fixture.pool.run(call);
    assertEquals(fixture.pool.workers[0]?.circuit, "open");
    asked();
    broken = false;
    await fixture.clock.advance(5_000);
    for (let index = 0; index < 10; index++) await fixture.pool.run(call);
    assertEquals([asked(), fixture.pool.workers[0]?.circuit], [5, "closed"]);
    await fixture[Symbol.asyncDispose]();
  });
});

describe("a WorkerPool", () => {
  it("WorkerPool has all metrics at zero from the start, and counts", async () => {
    await using fixture = new Fixture(["a", "b"]);
    const all = () =>
      fixture.pool.metrics().flatMap(({ name, samples }) =>
        samples.map(({ labels, value }) =>
          [name, ...Object.values(labels ?? {}).slice(1), value].join(" ")
        )
      );
    const before = all();
    assertEquals(before.length, 7 + 3 + 1 + 2 + 3 + 1);
    assert(before.every((line) => line.endsWith(" 0")), before.join("\n"));
    await fixture.start();
    await assertRejects(() => fixture.pool.run(failing(new TerminatingError("stopping"))));
    const after = all();
    for (
      const line of [
        "lastcall_pool_attempts_total terminating 2",
        "lastcall_pool_retries_total terminating 1",
        "lastcall_pool_health_checks_total healthy 2",
        "lastcall_pool_workers unhealthy 2",
      ]
    ) assert(after.includes(line), `${line} is not in\n${after.join("\n")}`);
    assertEquals(after.length, before.length);
  });

  it("WorkerPool continues when a listener throws", async () => {
    await using fixture = await new Fixture(["a"]).start();
    fixture.pool.on("attempt", () => {
      throw new Error("careless");
    });
    assertEquals(await fixture.order(2), "aa");
  });

  it("WorkerPool refuses invalid options without secrets in the error", () => {
    const workers = ["http://a"];
    for (
      const [options, text] of [
        [{ workers: "http://a" }, "expected an array or a function"],
        [{ workers: ["user:secret"] }, "Invalid worker URL"],
        [{ workers, healthEveryMs: 0 }, "Invalid healthEveryMs"],
        [{ workers, minRemainingMs: -1 }, "Invalid minRemainingMs"],
        [{ workers, attempts: { capacity: 1.5 } }, "Invalid attempts.capacity"],
        [{ workers, circuit: { failures: -1 } }, "Invalid circuit.failures"],
        [{ workers, capacityCodes: 5007 }, "Invalid capacityCodes"],
        [{ workers, capacityCodes: [null] }, "Invalid capacityCodes"],
      ] as const
    ) {
      const error = assertThrows(() => new WorkerPool(options as never), Error, text);
      assert(!error.message.includes("secret"), error.message);
    }
  });
});

describe("a WorkerPool in the resources of a group", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("WorkerPool in resources checks its workers while its group drains", async () => {
    const fixture = new Fixture(["a", "b"]);
    const runtime = new FakeRuntime();
    const asked: string[] = [];
    const loop = new StepLoop("front", async ({ stopping }) => {
      if (!stopping.aborted) await fixture.clock.sleep(8_000);
      assert(stopping.aborted);
      await fixture.pool.run(({ id }) => Promise.resolve(void asked.push(id)));
    }, { clock: fixture.clock });
    const { clock } = fixture;
    const group = new LoopGroup([loop], {
      clock,
      runtime,
      resources: [fixture.pool],
      log: silentLog,
    });
    const run = group.run();
    while (!loop.running) await nextTurn();
    await clock.advance(1_000);
    runtime.send("SIGTERM");
    await clock.advance(1_000);
    fixture.health["a"] = false;
    assertEquals((await clock.until(run)).outcome, "drained");
    assertEquals([asked, clock.pending], [["b"], 0]);
    assertEquals(fixture.events.map(({ noneHealthy }) => noneHealthy), [false]);
  });
});
