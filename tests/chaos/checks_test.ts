import { test } from "node:test";
import { assertEquals } from "@std/assert";
import {
  beyondLimitOf,
  checksOf,
  expiredOf,
  rateRemark,
  recoveriesOf,
  recoveryRemark,
  rerunOf,
  type RunRecord,
  startedInPauseOf,
  stolenOf,
} from "../../chaos/_checks.ts";
import { slotFaultsOf } from "../../chaos/_cron.ts";
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

test("a message whose delivery was undone by a crash of the server is not stolen", () => {
  const ledger = ledgerOf(["1", 5_000, 9_000], ["1", 6_500, 7_000], ["2", 4_000, 9_000], [
    "2",
    6_500,
    7_000,
  ]);
  const stolen = (undoneMs: number, ...crashes: readonly number[]) =>
    checksOf({ ...options, longLeases: true }, { ...brokenRun(), ledger, crashes, undoneMs })
      .checks.find(({ name }) => name === "stolen")?.broken.map(({ id }) => id);
  assertEquals(stolen(1_000, 5_900), ["2"]);
  assertEquals(stolen(1_000), ["1", "2"]);
  assertEquals(stolen(1_000, 4_900), ["1"], "only the delivery before the crash");
  assertEquals(stolen(0, 5_900), ["1", "2"]);
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
  const recoveries = recoveriesOf(ledger);
  assertEquals(recoveries, [{ id: "2", ms: 1_500 }, { id: "1", ms: 3_000 }]);
  assertEquals(expiredOf(recoveries), []);
  const text =
    "recovered   2 messages of killed workers; p50 3.0 s, p99 3.0 s, max 3.0 s after SIGKILL";
  assertEquals(recoveryRemark(recoveries), text);
  const late = { id: "5", ms: 250_000 };
  assertEquals(expiredOf([...recoveries, late]), ["5"]);
  assertEquals(recoveryRemark([...recoveries, late]), `${text}; 1 when their leases expired`);
});

test("messages may wait for the expiry of their leases only when the server was away", () => {
  const ledger = ledgerOf(["1", 0, 1_000, "killed"], ["1", 250_000, 250_100]);
  const record = { ...brokenRun(), ledger, poison: new Set<string>(), slots: undefined };
  const counts = (faults: ChaosOptions["faults"]) =>
    checksOf({ ...options, longLeases: true, faults }, record).checks
      .map(({ name, broken }) => [name, broken.length]);
  assertEquals(counts(["kill", "suspend"]), [["stolen", 0], ["expired", 1]]);
  assertEquals(counts(["kill", "restart"]), [["stolen", 0]]);
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
  assertEquals(startedInPauseOf(handlings, pauses), ["2"]);
  assertEquals(startedInPauseOf(handlings, []), []);
});

test("a start after a suspension is not prompt: the message may have been received before", () => {
  const ledger = ledgerOf(["1", 3_100, 3_200], ["2", 3_050, 3_200], ["3", 400, 500]);
  const ids = () => ledger.promptHandlings.map(({ id }) => id);
  assertEquals(ids(), ["3", "2", "1"]);
  ledger.stalled({ worker: "worker 0", from: 500, to: 2_000 });
  assertEquals(ids(), ["3", "2", "1"], "it was long ago");
  ledger.stalled({ worker: "worker 0", from: 2_050, to: 3_000 });
  assertEquals(ids(), ["3", "2"]);
  ledger.stalled({ worker: "worker 2", from: 401, to: 3_000 });
  assertEquals(ids(), ["3", "2"], "it started before");
});

/** Starts at a number per second. */
function starts(perSecond: number, seconds: number, from = 0): readonly [string, number, number][] {
  return Array.from({ length: perSecond * seconds }, (_, i) => {
    const at = from + i * 1_000 / perSecond;
    return [`${at}`, at, at];
  });
}

test("starts at the rate of the limit keep it, and also bursts of it", () => {
  assertEquals(beyondLimitOf(ledgerOf(...starts(10, 60)).handlings, 10), []);
  const bursts = [0, 1, 2, 3].flatMap((second) => starts(1_000, 0.01, 1_000 * second));
  assertEquals(beyondLimitOf(ledgerOf(...bursts).handlings, 10), []);
  assertEquals(beyondLimitOf([], 10), []);
});

test("starts beyond the limit break it, also when few messages start before and after", () => {
  const { handlings } = ledgerOf(
    ...starts(1, 60),
    ...starts(30, 2, 60_000),
    ...starts(1, 60, 62_000),
  );
  const beyond = beyondLimitOf(handlings, 10).map(Number);
  // After 0.95 s, 30 starts per second are more than 10 × (seconds + 2).
  assertEquals(beyond.map((at) => Math.round(at)).slice(0, 2), [60_967, 61_000]);
  assertEquals(beyond.length, 34);
  assertEquals(beyondLimitOf(handlings, 20), []);
  const text = rateRemark(ledgerOf(...starts(10, 1.1)).handlings, 10);
  assertEquals(text, "rate        11.0 starts/s in 1.0 s, with a limit of 10");
});

const slot = (seconds: number, delivery = 1) => ({ slot: seconds * 1_000, delivery });
const at = (seconds: number) => new Date(seconds * 1_000).toISOString();

test("each slot has to be sent once, from the first to the end of the run", () => {
  const all = [slot(5), slot(6), slot(7)];
  assertEquals(slotFaultsOf(all, 7_000), []);
  assertEquals(slotFaultsOf(all.toReversed(), 6_000), [], "later slots are right");
  assertEquals(slotFaultsOf([slot(5), slot(7)], 7_000), [at(6)], "missing");
  assertEquals(slotFaultsOf([...all, slot(6)], 7_000), [at(6)], "sent twice");
  assertEquals(slotFaultsOf(all, 9_500), [at(8), at(9)], "missing at the end");
  assertEquals(slotFaultsOf([], 9_000), [at(9)], "none");
});

test("a slot whose message was delivered twice was sent once", () => {
  assertEquals(slotFaultsOf([slot(5), slot(6), slot(6, 2)], 6_000), []);
  assertEquals(slotFaultsOf([slot(5), slot(6, 2)], 6_000), [], "the first answer was lost");
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
  cron: false,
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
  const slots = [slot(5), slot(5)];
  const server = { crashes: [], undoneMs: 0 };
  return { ledger, pauses, ...server, poison, deadLetters: new Set(), slots, slotsUntil: 5_000 };
}

test("a run makes the checks that its options ask for, and finds what is broken", () => {
  const asked = (part: Partial<ChaosOptions>) =>
    checksOf({ ...options, ...part }, brokenRun()).checks
      .map(({ name, broken }) => [name, broken.map(({ id }) => id).join()]);
  const spared = ["spared", "3"];
  const cron = ["cron slots", at(5)];
  assertEquals(asked({}), [spared, cron]);
  assertEquals(asked({ keys: 1 }), [["inversions", "2"], ["overlaps", "1,1,2,2"], spared, cron]);
  assertEquals(asked({ cancels: 1 }), [["revived", "3"], spared, cron]);
  assertEquals(asked({ longLeases: true }), [["stolen", "1,2"], ["expired", ""], spared, cron]);
  assertEquals(asked({ steps: true }), [spared, ["rerun", "2"], cron]);
  assertEquals(asked({ faults: ["pause"] }), [spared, ["in a pause", "1,2"], cron]);
  assertEquals(asked({ limit: 1 }), [spared, ["too early", "1,2,2"], cron]);
});

test("a run without options that promise more makes no checks", () => {
  const record = { ...brokenRun(), poison: new Set<string>(), slots: undefined };
  assertEquals(checksOf(options, record), { checks: [], remarks: [] });
});

test("poison messages that are dead letters are not spared", () => {
  const record = { ...brokenRun(), deadLetters: new Set(["3"]), slots: undefined };
  const { checks } = checksOf(options, record);
  assertEquals(checks.map(({ name, broken }) => [name, broken.length]), [["spared", 0]]);
});
