import { test } from "node:test";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Ledger } from "../../chaos/_ledger.ts";
import { orderFaultsOf } from "../../chaos/_order.ts";
import { type ChaosResult, problemsOf, textOf } from "../../chaos/_result.ts";
import { faultsOf, parseOptions } from "../../chaos/options.ts";
import { loadSite, SITE_NAMES } from "../../chaos/sites.ts";

const good: ChaosResult = {
  title: "a run",
  seed: 1,
  sent: 2,
  completed: 2,
  lost: [],
  duplicated: [],
  repeated: [],
  left: 0,
  deadLetters: [],
  checks: [],
  faults: {},
  failures: [],
  ms: 1_000,
  graceful: true,
  remarks: [],
};
const one = [{ id: "1", history: "never started" }];

test("a chaos run fails when a message is lost, left or dead-lettered, or a worker fails", () => {
  assertEquals(problemsOf(good), []);
  const bad: readonly Partial<ChaosResult>[] = [
    { lost: one },
    { left: 1 },
    { deadLetters: one },
    { failures: ["worker 1 (bun) ended with 1"] },
  ];
  for (const graceful of [true, false]) {
    for (const part of bad) assertEquals(problemsOf({ ...good, graceful, ...part }).length, 1);
  }
});

test("a chaos run fails on duplicates only when all workers stopped gracefully", () => {
  for (const part of [{ duplicated: one }, { repeated: one }]) {
    assertEquals(problemsOf({ ...good, ...part }).length, 1);
    assertEquals(problemsOf({ ...good, ...part, graceful: false }), []);
  }
});

test("a chaos result names each lost message with its history", () => {
  const [problem] = problemsOf({ ...good, lost: one });
  assertEquals(problem, "1 messages were lost:\n    1: never started");
});

test("the ledger distinguishes messages that completed once, twice and never", () => {
  const ledger = new Ledger();
  ledger.started("a", "a1", "1", 1, 0);
  ledger.done("a1", 0);
  ledger.started("a", "a2", "2", 1, 0);
  ledger.started("b", "b1", "2", 2, 0);
  ledger.done("a2", 0);
  ledger.done("b1", 0);
  ledger.started("a", "a3", "3", 1, 0);
  assertEquals(ledger.completed, 2);
  assertEquals([...ledger.duplicated], ["2"]);
  assertEquals([...ledger.repeated], ["2"]);
  assertEquals(ledger.missing(4), ["3", "4"]);
});

test("a chaos run fails when one of its checks finds a message, and names the message", () => {
  const checks = [
    { name: "stolen", problem: "messages were stolen", broken: [] },
    { name: "rerun", problem: "messages were run again", broken: one },
  ];
  assertEquals(problemsOf({ ...good, checks: checks.slice(0, 1) }), []);
  for (const graceful of [true, false]) {
    assertEquals(problemsOf({ ...good, graceful, checks }), [
      "1 messages were run again:\n    1: never started",
    ]);
  }
  const text = textOf({ ...good, checks });
  assertEquals(text.match(/ {2}stolen +0\n {2}rerun +1\n/)?.length, 1, text);
});

test("the output tells the schedule, and the faults that were skipped", () => {
  const faults = { kill: 2, term: 1 };
  const text = textOf({ ...good, faults, skipped: { restart: 1 }, schedule: "0123abcd" });
  for (const line of ["survived    kill 2, term 1", "skipped     restart 1", "schedule 0123abcd"]) {
    assertEquals(text.includes(line), true, text);
  }
});

/** Calls of handlers by `a` and `b`: the id of the message, its start, its end, and how it was settled. */
function handled(
  ...calls:
    readonly (readonly [string, number, number, (boolean | "repeated" | "dies" | "done, dies")?])[]
): Ledger {
  const ledger = new Ledger();
  for (const [i, [id, from, to, settled = true]] of calls.entries()) {
    const [worker, call] = [`worker ${i}`, `call ${i}`];
    ledger.started(worker, call, id, 1, from);
    if (settled !== "dies") ledger.done(call, to);
    if (typeof settled === "boolean") ledger.acknowledged(call, settled ? "accepted" : "refused");
    else if (settled === "repeated") ledger.acknowledged(call, settled);
    else ledger.ended(worker, to);
  }
  return ledger;
}

test("the order of keys is right when the handlers of a key follow one another", () => {
  // With two keys, the messages 1 and 3 have one key, and 2 and 4 the other.
  const { handlings } = handled(["1", 0, 5], ["2", 1, 2], ["4", 2, 9], ["3", 5, 6]);
  assertEquals(orderFaultsOf(handlings, 2, true), { inversions: [], overlaps: [] });
});

test("a message that completes before an earlier one of its key is an inversion", () => {
  const { handlings } = handled(["3", 0, 1], ["1", 2, 3], ["2", 2, 3]);
  assertEquals(orderFaultsOf(handlings, 2, true), { inversions: ["3"], overlaps: [] });
});

test("a handler that starts before another one of its key has ended is an overlap", () => {
  const { handlings } = handled(["1", 0, 5], ["3", 4, 6], ["2", 4, 6]);
  assertEquals(orderFaultsOf(handlings, 2, true), { inversions: [], overlaps: ["3"] });
});

test("a handler whose acknowledgement was refused had no valid lease, and is no overlap", () => {
  const { handlings } = handled(["1", 0, 9, false], ["1", 4, 6], ["3", 6, 7]);
  assertEquals(orderFaultsOf(handlings, 2, true), { inversions: [], overlaps: [] });
});

test("the handler of a killed worker counts until its death, unless leases may have expired before", () => {
  for (const settled of ["dies", "done, dies"] as const) {
    const { handlings: early } = handled(["1", 0, 5, settled], ["1", 4, 6]);
    assertEquals(orderFaultsOf(early, 2, true).overlaps, ["1"]);
    assertEquals(orderFaultsOf(early, 2, false).overlaps, []);
    const { handlings: late } = handled(["1", 0, 5, settled], ["1", 5, 6], ["3", 6, 7]);
    assertEquals(orderFaultsOf(late, 2, true), { inversions: [], overlaps: [] });
  }
});

test("a repeated acknowledgement does not prove that a lease was valid, or that no cancel was first", () => {
  const ledger = handled(["1", 0, 9, "repeated"], ["1", 4, 6], ["3", 6, 7]);
  assertEquals(orderFaultsOf(ledger.handlings, 2, false).overlaps, []);
  assertEquals(orderFaultsOf(ledger.handlings, 2, true).overlaps, ["1", "3"]);
  const cancelled = handled(["1", 0, 9, "repeated"]);
  cancelled.cancel("1", true, 5);
  assertEquals(cancelled.revived, []);
});

test("a message that completed, was not acknowledged and is handled again is no inversion", () => {
  const { handlings } = handled(["1", 0, 5, "done, dies"], ["1", 6, 7], ["3", 7, 8], ["1", 8, 9]);
  assertEquals(orderFaultsOf(handlings, 2, true), { inversions: [], overlaps: [] });
});

test("the ledger tells cancelled messages, also those that were acknowledged all the same", () => {
  const ledger = handled(["1", 0, 5], ["2", 0, 5, false], ["3", 0, 5, false]);
  ledger.cancel("1", true, 1);
  ledger.cancel("2", true, 1);
  ledger.cancel("4", true, 1);
  ledger.cancel("5", false, 1);
  ledger.cancel("6", "unknown", 1);
  assertEquals(ledger.revived, ["1"]);
  assertEquals(ledger.missing(7), ["5", "7"]);
  assertEquals(ledger.finished, 5);
  assertEquals(ledger.handlings.map(({ id }) => id), ["3"], "a cancelled message has no order");
});

test("the ledger tells how soon a cancelled handler ended", () => {
  const ledger = new Ledger();
  ledger.started("a", "a1", "1", 1, 10);
  ledger.aborted("a1", 25);
  ledger.acknowledged("a1", "refused");
  ledger.cancel("1", true, 20);
  ledger.cancel("2", true, 20);
  assertEquals(ledger.abortMs, [5]);
});

test("the chaos tests run on SQLite, Redis, PostgreSQL and NATS", () => {
  assertEquals(SITE_NAMES, ["sqlite", "redis", "postgres", "nats"]);
});

test("an engine without a server gets only the faults of workers", async () => {
  assertEquals(faultsOf(await loadSite("redis"), "term"), ["term"]);
  assertEquals(faultsOf(await loadSite("sqlite"), "all"), ["term", "kill", "suspend"]);
});

test("pauses are among all faults only with long leases, because they cannot be checked otherwise", async () => {
  const site = await loadSite("sqlite");
  assertEquals(faultsOf(site, "all", true), ["term", "kill", "suspend", "pause"]);
  assertEquals(faultsOf(site, "pause", true), ["pause"]);
  assertThrows(() => faultsOf(site, "term,pause"), RangeError, "--long-leases");
});

test("the command line of the chaos tests refuses unknown engines, faults and numbers", async () => {
  assertEquals((await parseOptions(["--faults", "kill,freeze"])).faults, ["kill", "freeze"]);
  const { keys, cancels } = await parseOptions(["--keys", "50", "--cancels", "5"]);
  assertEquals([keys, cancels], [50, 0.05]);
  const bad = [["--faults", "flood"], ["--engine", "paper"], ["--messages", "0"], ["--keys", "0"]];
  for (const args of bad) {
    await assertRejects(() => parseOptions(args), RangeError, args[1]);
  }
});

test("the command line of the chaos tests has long leases, poison, steps, a rate limit and cron loops", async () => {
  const { longLeases, poison, steps, limit, cron } = await parseOptions([]);
  assertEquals([longLeases, poison, steps, limit, cron], [false, 0, false, 0, false]);
  const args = ["--long-leases", "--poison", "3", "--steps", "--limit", "50", "--cron"];
  const all = await parseOptions(args);
  const values = [all.longLeases, all.poison, all.steps, all.limit, all.cron];
  assertEquals(values, [true, 3, true, 50, true]);
  const bad = [["--poison", "0"], ["--limit", "none"], ["--messages", "2", "--poison", "3"]];
  for (const it of bad) await assertRejects(() => parseOptions(it), RangeError, it.at(-1));
  for (
    const it of [["--steps"], ["--long-leases"], ["--limit", "9"], ["--poison", "1"], ["--cron"]]
  ) {
    await assertRejects(() => parseOptions(["--rolling", ...it]), RangeError, "--rolling");
  }
});
