import { test } from "node:test";
import { assertEquals } from "@std/assert";
import {
  beyondLimitOf,
  checksOf,
  rateRemark,
  recoveryMsOf,
  recoveryRemark,
  rerunOf,
  type RunRecord,
  startedInPauseOf,
  stolenOf,
} from "../../chaos/_checks.ts";
import { Ledger } from "../../chaos/_ledger.ts";
import type { ChaosOptions } from "../../chaos/options.ts";

/** How a call of a handler ended: `killed` with its worker, `open` when it did not end. */
type End = "done" | "failed" | "killed" | "open";

/** A ledger of calls of handlers, each in a worker of its own: the id of the message, its start and its end. */
function ledgerOf(...calls: readonly (readonly [string, number, number, End?])[]): Ledger {
  const ledger = new Ledger();
  for (const [i, [id, from, to, end = "done"]] of calls.entries()) {
    const [worker, call] = [`worker ${i}`, `call ${i}`];
    ledger.started(worker, call, id, 1, from);
    if (end === "done") ledger.done(call, to);
    else if (end === "failed") ledger.failed(call, to);
    else if (end === "killed") ledger.ended(worker, to, "killed");
  }
  return ledger;
}

test("a message that starts while its handler runs in another worker is stolen", () => {
  assertEquals(stolenOf(ledgerOf(["1", 0, 9], ["1", 5, 7]).handlings), ["1"]);
  assertEquals(stolenOf(ledgerOf(["1", 0, 9, "failed"], ["1", 5, 7]).handlings), ["1"]);
  assertEquals(stolenOf(ledgerOf(["1", 0, 9, "open"], ["1", 50, 70]).handlings), ["1"]);
  assertEquals(stolenOf(ledgerOf(["1", 0, 90], ["1", 5, 7], ["1", 8, 9]).handlings), ["1"]);
});

test("a message that starts again after its handler ended or its worker was killed is not stolen", () => {
  for (const end of ["done", "failed", "killed"] as const) {
    assertEquals(stolenOf(ledgerOf(["1", 0, 5, end], ["1", 5, 7]).handlings), []);
  }
  assertEquals(stolenOf(ledgerOf(["1", 0, 9], ["2", 5, 7]).handlings), []);
});

test("a message that starts before its worker is killed is stolen", () => {
  assertEquals(stolenOf(ledgerOf(["1", 0, 9, "killed"], ["1", 8, 10]).handlings), ["1"]);
});

test("the messages of a killed worker come back at their next start", () => {
  const ledger = ledgerOf(
    ["1", 0, 1_000, "killed"],
    ["2", 0, 1_000, "killed"],
    ["3", 0, 1_000, "killed"], // acknowledged, so it does not start again
    ["4", 0, 1_000],
    ["1", 4_000, 4_100],
    ["2", 2_500, 2_600],
    ["2", 6_000, 6_100],
  );
  assertEquals(recoveryMsOf(ledger), [1_500, 3_000]);
  assertEquals(
    recoveryRemark(recoveryMsOf(ledger)),
    "recovered   2 messages of killed workers; p50 3.0 s, p99 3.0 s, max 3.0 s after SIGKILL",
  );
});

/** A ledger of one message: for each call what happened to its steps and when, `!` after a name for a save. */
function stepsOf(...calls: readonly Readonly<Record<string, number>>[]): Ledger {
  const ledger = new Ledger();
  for (const [i, steps] of calls.entries()) {
    ledger.started(`worker ${i}`, `call ${i}`, "1", 1, 0);
    for (const [name, at] of Object.entries(steps)) {
      if (name.endsWith("!")) ledger.stepSaved(`call ${i}`, name.slice(0, -1), at);
      else ledger.stepRan(`call ${i}`, name, at);
    }
  }
  return ledger;
}

test("a step that two handlers ran and saved has run again, whatever happened to leases", () => {
  const { handlings } = stepsOf({ "a": 1, "a!": 2 }, { "a": 3, "a!": 4 });
  for (const keptLeases of [true, false]) assertEquals(rerunOf(handlings, keptLeases), ["1"]);
});

test("a step that runs after it was saved has run again, unless leases may have expired before", () => {
  const { handlings } = stepsOf({ "a": 1, "a!": 2 }, { "a": 3 });
  assertEquals(rerunOf(handlings, true), ["1"]);
  assertEquals(rerunOf(handlings, false), []);
});

test("a step that was not saved may run again, and a saved one returns without running", () => {
  const { handlings } = stepsOf(
    { "a": 1, "a!": 2, "b": 3 },
    { "a!": 5, "b": 6, "b!": 7, "c": 8 },
    { "a!": 9, "b!": 9, "c": 10, "c!": 11 },
  );
  assertEquals(rerunOf(handlings, true), []);
});

const pauses = [{ confirmedAt: 1_000, endsAt: 3_500 }];

test("a message that starts later than a second after a pause began, and before it ends, breaks it", () => {
  const { handlings } = ledgerOf(["1", 1_900, 9_000], ["2", 2_100, 2_200], ["3", 3_600, 3_700]);
  assertEquals(startedInPauseOf(handlings, pauses, []), ["2"]);
  assertEquals(startedInPauseOf(handlings, [], []), []);
});

test("a worker that was suspended may start during a pause what it had received before", () => {
  const { handlings } = ledgerOf(["1", 3_100, 3_200], ["2", 3_100, 3_200]);
  const suspensions = [{ worker: "worker 0", from: 500, to: 3_000 }];
  assertEquals(startedInPauseOf(handlings, pauses, suspensions), ["2"]);
  const longAgo = [{ worker: "worker 0", from: 500, to: 2_000 }];
  assertEquals(startedInPauseOf(handlings, pauses, longAgo), ["1", "2"]);
});

test("more starts than the limit allows in the time from the first to the last break it", () => {
  const starts = Array.from({ length: 21 }, (_, i) => [`${i}`, i * 50, i * 50] as const);
  const { handlings } = ledgerOf(...starts); // 21 starts in one second
  assertEquals(beyondLimitOf(handlings, 11), []);
  assertEquals(beyondLimitOf(handlings, 10), ["20"]);
  assertEquals(beyondLimitOf([], 10), []);
  assertEquals(rateRemark(handlings, 10), "rate        21.0 starts/s in 1.0 s, with a limit of 10");
});

const options: ChaosOptions = {
  engine: "none",
  messages: 3,
  seconds: 1,
  workers: 3,
  faults: ["kill"],
  seed: 1,
  faultsPerSecond: 1,
  keys: 0,
  cancels: 0,
  longLeases: false,
  poison: 0,
  steps: false,
  limit: 0,
  rolling: false,
};

/** A run in which every promise is broken. Message 3 was to be dead-lettered. */
function brokenRun(): RunRecord {
  const ledger = ledgerOf(["1", 2_100, 5_000], ["1", 2_200, 2_300], ["2", 2_100, 2_200]);
  for (const call of ["a", "b"]) {
    ledger.started(`worker ${call}`, call, "2", 1, 2_300);
    ledger.stepRan(call, "one", 2_300);
    ledger.stepSaved(call, "one", 2_310);
    ledger.done(call, 2_320);
  }
  ledger.started("worker c", "c", "3", 1, 2_400);
  ledger.acknowledged("c", "accepted");
  ledger.cancel("3", true, 2_000);
  const poison = new Set(["3"]);
  return { ledger, pauses, suspensions: [], poison, deadLetters: new Set() };
}

test("a run makes the checks that its options ask for, and finds what is broken", () => {
  const asked = (part: Partial<ChaosOptions>) =>
    checksOf({ ...options, ...part }, brokenRun()).checks
      .map(({ name, broken }) => [name, broken.map(({ id }) => id).join()]);
  const spared = ["spared", "3"];
  assertEquals(asked({}), [spared]);
  assertEquals(asked({ keys: 1 }), [["inversions", "2"], ["overlaps", "1,1,2,2"], spared]);
  assertEquals(asked({ cancels: 1 }), [["revived", "3"], spared]);
  assertEquals(asked({ longLeases: true }), [["stolen", "1,2"], spared]);
  assertEquals(asked({ steps: true }), [spared, ["rerun", "2"]]);
  assertEquals(asked({ faults: ["pause"] }), [spared, ["in a pause", "1,2"]]);
  assertEquals(asked({ limit: 2 }), [spared, ["too early", "1,2,2"]]);
});

test("a run without options that promise more makes no checks", () => {
  const poison = new Set<string>();
  assertEquals(checksOf(options, { ...brokenRun(), poison }), { checks: [], remarks: [] });
});

test("poison messages that are dead letters are not spared", () => {
  const deadLetters = new Set(["3"]);
  const { checks } = checksOf(options, { ...brokenRun(), deadLetters });
  assertEquals(checks.map(({ name, broken }) => [name, broken.length]), [["spared", 0]]);
});
