import { test } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { pick, shuffle } from "../../chaos/_faults.ts";
import { type ChaosResult, Ledger, problemsOf } from "../../chaos/_ledger.ts";
import { faultsOf, parseOptions } from "../../chaos/options.ts";
import { loadSite, SITE_NAMES } from "../../chaos/sites.ts";
import { seededRandom } from "../../src/random.ts";

const good: ChaosResult = {
  title: "a run",
  seed: 1,
  sent: 2,
  completed: 2,
  lost: [],
  duplicated: [],
  repeated: [],
  left: 0,
  deadLetters: 0,
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
    { deadLetters: 1 },
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
  ledger.started("a", "1", 1);
  ledger.done("a", "1");
  ledger.started("a", "2", 1);
  ledger.started("b", "2", 2);
  ledger.done("a", "2");
  ledger.done("b", "2");
  ledger.started("a", "3", 1);
  assertEquals(ledger.completed, 2);
  assertEquals([...ledger.duplicated], ["2"]);
  assertEquals([...ledger.repeated], ["2"]);
  assertEquals(ledger.missing(4), ["3", "4"]);
});

test("the same seed makes the same choices, and another seed makes others", () => {
  const choices = (seed: number) => {
    const random = seededRandom(seed);
    return [random.number(), pick(random, [1, 2, 3]), shuffle(random, [1, 2])];
  };
  assertEquals(choices(7), choices(7));
  assertEquals(new Set([1, 2, 3, 4, 5].map((seed) => `${choices(seed)}`)).size, 5);
});

test("the chaos tests run on SQLite, Redis, PostgreSQL and NATS", () => {
  assertEquals(SITE_NAMES, ["sqlite", "redis", "postgres", "nats"]);
});

test("an engine without a server gets only the faults of workers", async () => {
  assertEquals(faultsOf(await loadSite("redis"), "term"), ["term"]);
  assertEquals(faultsOf(await loadSite("sqlite"), "all"), ["term", "kill", "suspend"]);
});

test("the command line of the chaos tests refuses unknown engines, faults and numbers", async () => {
  assertEquals((await parseOptions(["--faults", "kill,freeze"])).faults, ["kill", "freeze"]);
  for (const args of [["--faults", "flood"], ["--engine", "paper"], ["--messages", "0"]]) {
    await assertRejects(() => parseOptions(args), RangeError, args[1]);
  }
});
