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
import { Yard } from "./_pool.ts";

const failing = (error: Error): PoolCall<string> => () => Promise.reject(error);

describe("a WorkerPool asks again", () => {
  for (
    const [kind, error, attempts] of [
      ["terminating", new TerminatingError("stopping"), 3],
      ["unreachable", new UnreachableError("gone"), 2],
      ["capacity", new CapacityError("full"), 2],
      ["failed", new Error("a bug"), 1],
    ] as const
  ) {
    it(`so often in all when workers are ${kind}: ${attempts}, each another one`, async () => {
      await using yard = await new Yard(["a", "b", "c", "d"]).start();
      const thrown = await assertRejects(() => yard.pool.run(failing(error)));
      assertEquals(thrown, error, "what the last one failed with");
      assertEquals(yard.asked, ["a", "b", "c"].slice(0, attempts).map((id) => `${id} ${kind}`));
      assertEquals(yard.events.map(({ retried }) => retried).lastIndexOf(true), attempts - 2);
    });
  }

  it("and gives the answer of whoever has one", async () => {
    await using yard = await new Yard(["a", "b"]).start();
    const call: PoolCall<string> = ({ id }, { attempt }) =>
      id === "a"
        ? Promise.reject(new TerminatingError("stopping"))
        : Promise.resolve(`${id}${attempt}`);
    assertEquals(await yard.pool.run(call), "b2");
    assertEquals(yard.asked, ["a terminating", "b answered"]);
    assertEquals(await yard.pool.run(call), "b1", "who is stopping is not asked first");
  });

  it("only by what the last attempt failed with", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    const errors = [new TerminatingError("stopping"), new UnreachableError("gone")];
    await assertRejects(
      () => yard.pool.run((_, { attempt }) => Promise.reject(errors[attempt - 1])),
      UnreachableError,
    );
    assertEquals(yard.asked, ["a terminating", "b unreachable"]);
  });

  it("never for a session, whose worker stays the same", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    const owners = new Map<string, string>();
    for (let index = 0; index < 60; index++) {
      const sessionId = `session ${index % 30}`;
      const error = new TerminatingError("stopping");
      await assertRejects(() => yard.pool.run(failing(error), { sessionId }), TerminatingError);
      assertEquals(yard.events.length, index + 1, "one attempt each");
      const owner = yard.events[index]!.worker;
      assertEquals(owners.get(sessionId) ?? owner, owner);
      owners.set(sessionId, owner);
    }
    assertEquals(new Set(owners.values()).size, 3, "sessions are spread");
  });

  it("never for a request to one worker, and says when that one is not known", async () => {
    await using yard = await new Yard(["a", "b"]).start();
    const options = { workerId: "b" };
    await assertRejects(() => yard.pool.run(failing(new UnreachableError("gone")), options));
    assertEquals(yard.asked, ["b unreachable"]);
    await assertRejects(
      () => yard.pool.run(() => Promise.resolve(), { workerId: "z" }),
      NoWorkerError,
      'knows no worker "z"',
    );
  });

  it("not with less time left than the minimum: 10 s unless told", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    const slowly = (ms: number): PoolCall<void> => async () => {
      await yard.clock.sleep(ms);
      throw new TerminatingError("stopping");
    };
    const run = async (ms: number, deadlineMs: number, pool = yard.pool) => {
      yard.events.length = 0;
      const done = pool.run(slowly(ms), { deadlineMs });
      done.catch(() => {});
      await yard.clock.advance(60_000);
      await assertRejects(() => done, TerminatingError);
      return yard.events.map(({ remainingMs }) => remainingMs);
    };
    assertEquals(await run(5_001, 15_000), [9_999]);
    assertEquals(await run(5_000, 15_000), [10_000, 5_000]);
    assertEquals(await run(0, 9_000), [9_000], "the first attempt is always made");
  });

  it("nobody whom the caller excludes", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    const error = new TerminatingError("stopping");
    await assertRejects(() => yard.pool.run(failing(error), { exclude: ["b"] }), TerminatingError);
    assertEquals(yard.asked, ["a terminating", "c terminating"]);
    await assertRejects(
      () => yard.pool.run(failing(error), { exclude: ["a", "b", "c"] }),
      NoWorkerError,
      "it knows 3 workers, and 3 were excluded",
    );
  });
});

describe("a WorkerPool gives up", () => {
  it("at the deadline, although the worker does not listen", async () => {
    await using yard = await new Yard(["a", "b"]).start();
    let aborted = false;
    const done = yard.pool.run((_, { signal }) => {
      signal.addEventListener("abort", () => aborted = true);
      return new Promise(() => {});
    }, { deadlineMs: 2_000 });
    done.catch(() => {});
    await yard.clock.advance(2_000);
    const error = await assertRejects(() => done, Error, "longer than its deadline of 2000 ms");
    assertEquals([error.name, aborted], ["DeadlineExceededError", true]);
    assertEquals(yard.asked, ["a deadline"]);
    assertEquals(yard.pool.workers.map(({ inFlight }) => inFlight), [0, 0]);
  });

  it("when the caller has lost interest", async () => {
    await using yard = await new Yard(["a", "b"]).start();
    const controller = new AbortController();
    const done = yard.pool.run(() => new Promise(() => {}), { signal: controller.signal });
    await yard.clock.settle();
    controller.abort(new Error("bored"));
    await assertRejects(() => done, Error, "bored");
    await assertRejects(() => yard.pool.run(() => Promise.resolve(), controller), Error, "bored");
    assertEquals(yard.asked, ["a aborted", "b aborted"]);
  });
});

describe("a WorkerPool chooses", () => {
  it("each in turn when all are equal", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    assertEquals(await yard.order(6), "abcabc");
  });

  it("the one with the most free slots, less what it got since it told", async () => {
    const yard = new Yard(["a", "b"]);
    yard.health["a"] = { healthy: true, freeSlots: 4 };
    yard.health["b"] = { healthy: true, freeSlots: 2 };
    await yard.start();
    const hold = deferred();
    assertEquals(await yard.order(2, hold.promise), "aa");
    const rest = await yard.order(4, hold.promise);
    assertEquals([...rest].sort().join(""), "aabb", rest);
    assertEquals(yard.pool.workers.map(({ freeSlots }) => freeSlots), [0, 0]);
    hold.resolve();
    await yard.clock.settle();
    assertEquals(yard.pool.workers.map(({ freeSlots }) => freeSlots), [4, 2]);
    await yard[Symbol.asyncDispose]();
  });

  it("the one with the fewest requests from here when slots are not told", async () => {
    await using yard = await new Yard(["a", "b", "c"]).start();
    const hold = deferred();
    await yard.order(3, hold.promise);
    const short = deferred();
    const done = yard.pool.run(() => short.promise, { workerId: "b" });
    await yard.clock.settle();
    assertEquals([...await yard.order(2, hold.promise)].sort().join(""), "ac");
    short.resolve();
    hold.resolve();
    await done;
  });

  it("not the one that has no room, until it tells again", async () => {
    const yard = new Yard(["a", "b"]);
    yard.health["a"] = { healthy: true, freeSlots: 5 };
    yard.health["b"] = { healthy: true, freeSlots: 1 };
    await yard.start();
    await yard.pool.run(({ id }) =>
      id === "a" ? Promise.reject(new CapacityError("full")) : Promise.resolve()
    );
    assertEquals(await yard.order(2), "bb");
    await yard.clock.advance(1_000);
    assertEquals(await yard.order(1), "a");
    await yard[Symbol.asyncDispose]();
  });

  it("among all when none is healthy, and says so", async () => {
    const yard = new Yard(["a", "b"]);
    yard.health["a"] = yard.health["b"] = false;
    await yard.start();
    const told: boolean[] = [];
    await yard.pool.run((_, { noneHealthy, attempt }) => {
      told.push(noneHealthy);
      return attempt === 1 ? Promise.reject(new UnreachableError("gone")) : Promise.resolve();
    });
    assertEquals(told, [true, true]);
    assertEquals(yard.events.map(({ noneHealthy }) => noneHealthy), [true, true]);
    yard.health["b"] = true;
    await yard.clock.advance(5_000);
    assertEquals(await yard.order(2), "bb");
    assertEquals(yard.events.at(-1)?.noneHealthy, false);
    await yard[Symbol.asyncDispose]();
  });
});

describe("a WorkerPool knows how its workers are doing", () => {
  it("although one hangs: the others are asked every second all the same", async () => {
    const yard = new Yard(["a", "b", "c"]);
    yard.health["b"] = "hangs";
    await yard.start();
    assertEquals(yard.clock.monotonic(), 1_000, "the start waits for the timeout, no longer");
    await yard.clock.settle();
    yard.checks.length = 0;
    await yard.clock.advance(10_000);
    const of = (id: string) => yard.checks.filter((it) => it === id).length;
    assertEquals([of("a"), of("c")], [10, 10]);
    assert(of("b") >= 1 && of("b") <= 5, `b was asked ${of("b")} times`);
    assertEquals(yard.pool.workers.map(({ healthy }) => healthy), [true, false, true]);
    await yard[Symbol.asyncDispose]();
  });

  it("and asks one in trouble ever less often, but at least every ten seconds", async () => {
    const yard = new Yard(["a"]);
    yard.health["a"] = new Error("refused");
    await yard.start();
    await yard.clock.advance(60_000);
    const many = yard.checks.length;
    assert(many >= 8 && many <= 20, `asked ${many} times in a minute`);
    yard.health["a"] = true;
    await yard.clock.advance(10_000);
    assertEquals(yard.pool.workers[0]?.healthy, true);
    yard.checks.length = 0;
    await yard.clock.advance(5_000);
    assertEquals(yard.checks.length, 5, "and in health as often as ever");
    await yard[Symbol.asyncDispose]();
  });

  it("finds new ones, forgets those that left, and survives a search that fails or hangs", async () => {
    let found: () => Promise<string[]> = () => Promise.resolve(["http://a:1", "http://b:1"]);
    const changes: string[] = [];
    const yard = new Yard([], { workers: () => found(), probe: () => Promise.resolve(true) });
    yard.pool.on("worker", ({ worker, change }) => changes.push(`${worker} ${change}`));
    await yard.start();
    const ids = () => yard.pool.workers.map(({ id }) => id).join();
    assertEquals(ids(), "a:1,b:1");
    found = () => Promise.resolve(["http://b:1", "http://user:secret@c:1/base/"]);
    changes.length = 0;
    await yard.clock.advance(10_000);
    assertEquals(ids(), "b:1,c:1/base");
    assertEquals(changes, ["a:1 left", "c:1/base joined", "c:1/base healthy"]);
    found = () => Promise.reject(new Error("no DNS"));
    await yard.clock.advance(10_000);
    found = () => new Promise(() => {});
    await yard.clock.advance(30_000);
    assertEquals(ids(), "b:1,c:1/base");
    found = () => Promise.resolve([]);
    await yard.clock.advance(30_000);
    await assertRejects(() => yard.order(1), NoWorkerError, "it knows 0 workers");
    await yard[Symbol.asyncDispose]();
  });

  it("and takes one out that fails again and again, until a trial succeeds", async () => {
    const changes: string[] = [];
    const yard = new Yard(["a", "b"], { circuit: { failures: 3, openMs: 5_000 } });
    yard.pool.on("worker", ({ worker, change }) => changes.push(`${worker} ${change}`));
    await yard.start();
    let broken = true;
    const call: PoolCall<void> = ({ id }) =>
      id === "a" && broken ? Promise.reject(new UnreachableError("gone")) : Promise.resolve();
    for (let index = 0; index < 10; index++) await yard.pool.run(call);
    const asked = () => yard.events.splice(0).filter(({ worker }) => worker === "a").length;
    assertEquals([asked(), yard.pool.workers[0]?.circuit], [3, "open"]);
    assertEquals(changes.at(-1), "a circuit_opened");
    await yard.clock.advance(5_000);
    for (let index = 0; index < 10; index++) await yard.pool.run(call);
    assertEquals([asked(), yard.pool.workers[0]?.circuit], [1, "open"], "one trial");
    await yard.clock.advance(5_000);
    const slow = deferred();
    const trials = Array.from({ length: 4 }, () => yard.pool.run(() => slow.promise));
    assertEquals(yard.pool.workers.map(({ inFlight }) => inFlight), [1, 3], "one trial at a time");
    assertEquals(yard.pool.workers[0]?.circuit, "half_open");
    yard.clock.schedule(0, () => slow.resolve());
    await Promise.all(trials);
    assertEquals([asked(), yard.pool.workers[0]?.circuit], [1, "closed"]);
    await Promise.all(Array.from({ length: 4 }, () => yard.pool.run(call)));
    assertEquals([asked() > 0, yard.pool.workers[0]?.circuit], [true, "closed"], "it begins anew");
    for (let index = 0; index < 10; index++) await yard.pool.run(call);
    assertEquals(yard.pool.workers[0]?.circuit, "open");
    asked();
    broken = false;
    await yard.clock.advance(5_000);
    for (let index = 0; index < 10; index++) await yard.pool.run(call);
    assertEquals([asked(), yard.pool.workers[0]?.circuit], [5, "closed"]);
    await yard[Symbol.asyncDispose]();
  });
});

describe("a WorkerPool", () => {
  it("has its metrics at zero from the start, and counts", async () => {
    await using yard = new Yard(["a", "b"]);
    const all = () =>
      yard.pool.metrics().flatMap(({ name, samples }) =>
        samples.map(({ labels, value }) =>
          [name, ...Object.values(labels ?? {}).slice(1), value].join(" ")
        )
      );
    const before = all();
    assertEquals(before.length, 7 + 3 + 1 + 2 + 3 + 1);
    assert(before.every((line) => line.endsWith(" 0")), before.join("\n"));
    await yard.start();
    await assertRejects(() => yard.pool.run(failing(new TerminatingError("stopping"))));
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

  it("is not harmed by a listener that throws", async () => {
    await using yard = await new Yard(["a"]).start();
    yard.pool.on("attempt", () => {
      throw new Error("careless");
    });
    assertEquals(await yard.order(2), "aa");
  });

  it("refuses options that make no sense, and tells no secrets", () => {
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

describe("a WorkerPool as resources of a group", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("goes on asking how its workers are doing while its own process drains", async () => {
    const yard = new Yard(["a", "b"]);
    const runtime = new FakeRuntime();
    const asked: string[] = [];
    const loop = new StepLoop("front", async ({ stopping }) => {
      if (!stopping.aborted) await yard.clock.sleep(8_000);
      assert(stopping.aborted);
      await yard.pool.run(({ id }) => Promise.resolve(void asked.push(id)));
    }, { clock: yard.clock });
    const { clock } = yard;
    const group = new LoopGroup([loop], { clock, runtime, resources: [yard.pool], log: silentLog });
    const run = group.run();
    while (!loop.running) await nextTurn();
    await clock.advance(1_000);
    runtime.send("SIGTERM");
    await clock.advance(1_000);
    yard.health["a"] = false;
    assertEquals((await clock.until(run)).outcome, "drained");
    assertEquals([asked, clock.pending], [["b"], 0]);
    assertEquals(yard.events.map(({ noneHealthy }) => noneHealthy), [false]);
  });
});
