import { test } from "node:test";
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { Faults, Outages } from "../../chaos/_faults.ts";
import { hashOf, type PlannedFault, poisonIdsOf, scheduleOf } from "../../chaos/_schedule.ts";
import { FAULTS } from "../../chaos/options.ts";
import type { WorkerProcess, Workers } from "../../chaos/_workers.ts";

const options = { seed: 7, kinds: FAULTS, ms: 60_000, perSecond: 2 } as const;

test("the same seed has the same schedule of faults, and another seed another one", () => {
  const schedule = scheduleOf(options);
  assertEquals(scheduleOf(options), schedule);
  assertEquals(hashOf(scheduleOf(options)), hashOf(schedule));
  const hashes = [1, 2, 3, 4, 5].map((seed) => hashOf(scheduleOf({ ...options, seed })));
  assertEquals(new Set(hashes).size, 5);
});

test("a schedule is the same on every machine", () => {
  // A change of this hash means that the seeds of earlier runs no longer replay them.
  assertEquals(hashOf(scheduleOf(options)), "007e6934");
});

test("a schedule depends on the kinds, the time and the rate of faults", () => {
  const hash = hashOf(scheduleOf(options));
  for (const part of [{ kinds: FAULTS.slice(1) }, { ms: 30_000 }, { perSecond: 1 }]) {
    assertNotEquals(hashOf(scheduleOf({ ...options, ...part })), hash);
  }
  assertEquals(scheduleOf({ ...options, kinds: [] }), []);
});

test("a longer schedule begins with the shorter one", () => {
  const short = scheduleOf({ ...options, ms: 30_000 });
  assertEquals(scheduleOf(options).slice(0, short.length), short);
});

test("a schedule has each kind once before it repeats one, and the chosen rate", () => {
  const schedule = scheduleOf(options);
  const first = schedule.slice(0, FAULTS.length).map(({ kind }) => kind);
  assertEquals(first.toSorted(), FAULTS.toSorted());
  assert(schedule.length > 100 && schedule.length < 140, `${schedule.length} faults`);
  for (const { atMs, share, worker } of schedule) {
    assert(atMs > 0 && atMs < 60_000 && share >= 0 && share < 1 && worker >= 0 && worker < 1);
  }
});

test("the seed determines which messages are poison", () => {
  const ids = poisonIdsOf(7, 5, 1_000);
  assertEquals(ids.size, 5);
  assertEquals(poisonIdsOf(7, 5, 1_000), ids);
  assertNotEquals(poisonIdsOf(8, 5, 1_000), ids);
  assert([...ids].every((id) => Number(id) >= 1 && Number(id) <= 1_000));
  assertEquals(poisonIdsOf(7, 0, 1_000).size, 0);
  assertEquals([...poisonIdsOf(7, 3, 3)].sort(), ["1", "2", "3"]);
});

/** Workers that record what happens to them. */
class FakeWorkers {
  readonly calls: string[] = [];
  working: readonly string[];

  constructor(...working: readonly string[]) {
    this.working = working;
  }

  add(): void {
    this.calls.push("add");
  }

  stop(worker: unknown): Promise<void> {
    this.calls.push(`stop ${worker}`);
    return Promise.resolve();
  }

  kill(worker: unknown): Promise<void> {
    this.calls.push(`kill ${worker}`);
    return Promise.resolve();
  }

  suspend(worker: unknown, ms: number): Promise<void> {
    this.calls.push(`suspend ${worker} for ${ms}`);
    return Promise.resolve();
  }
}

function faultsOn(
  workers: FakeWorkers,
  schedule: readonly Omit<PlannedFault, "atMs">[],
  server: { readonly onFreeze?: () => void; readonly pause?: () => Promise<void> } = {},
): Faults {
  const nothing = async () => {};
  const { onFreeze = () => {}, pause = nothing } = server;
  const engine = {
    url: "",
    server: { kill: nothing, start: nothing, freeze: onFreeze, thaw: () => {} },
    [Symbol.asyncDispose]: nothing,
  };
  return new Faults({
    schedule: schedule.map((it) => ({ ...it, atMs: 0 })),
    workers: workers as { working: readonly unknown[] } as Workers & { working: WorkerProcess[] },
    outages: new Outages(engine),
    times: { suspendMs: (share) => 10 * share, freezeMs: (share) => 10 * share },
    pause,
  });
}

test("a fault hits the worker at its place among those that work", async () => {
  const workers = new FakeWorkers("a", "b", "c", "d");
  const faults = faultsOn(workers, [
    { kind: "kill", share: 0, worker: 0.74 },
    { kind: "term", share: 0, worker: 0 },
    { kind: "suspend", share: 0.5, worker: 0.99 },
  ]);
  await faults.run();
  assertEquals(workers.calls, ["add", "kill c", "add", "stop a", "suspend d for 5"]);
  assertEquals([faults.counts, faults.skipped], [{ kill: 1, term: 1, suspend: 1 }, {}]);
});

test("a fault is skipped and counted, not moved, when no worker works or the server is away", async () => {
  const workers = new FakeWorkers();
  const faults = faultsOn(workers, [
    { kind: "kill", share: 0, worker: 0 },
    { kind: "freeze", share: 1, worker: 0 },
    { kind: "restart", share: 0, worker: 0 },
    { kind: "freeze", share: 0, worker: 0 },
    { kind: "pause", share: 0, worker: 0 },
  ]);
  await faults.run();
  assertEquals(workers.calls, []);
  assertEquals(faults.counts, { freeze: 1 });
  assertEquals(faults.skipped, { kill: 1, restart: 1, freeze: 1, pause: 1 });
});

test("a pause that the engine does not confirm is skipped", async () => {
  const pause = () => Promise.reject(new Error("away"));
  const faults = faultsOn(new FakeWorkers(), [{ kind: "pause", share: 0, worker: 0 }], { pause });
  await faults.run();
  assertEquals([faults.counts, faults.skipped], [{}, { pause: 1 }]);
});
