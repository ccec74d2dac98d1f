import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { faultsOf, parseOptions } from "../../chaos/options.ts";
import { Ledger } from "../../chaos/_ledger.ts";
import { SeededRandom } from "../../chaos/_random.ts";
import { type ChaosResult, problemsOf } from "../../chaos/_result.ts";

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
  gentle: true,
  remarks: [],
};
const one = [{ id: "1", history: "never begun" }];

describe("the verdict on a run", () => {
  it("is good only when nothing is lost, left, buried or done wrong", () => {
    assertEquals(problemsOf(good), []);
    const bad: readonly Partial<ChaosResult>[] = [
      { lost: one },
      { left: 1 },
      { deadLetters: 1 },
      { failures: ["worker 1 (bun) ended with 1"] },
    ];
    for (const gentle of [true, false]) {
      for (const part of bad) assertEquals(problemsOf({ ...good, gentle, ...part }).length, 1);
    }
  });

  it("minds what was done or begun twice only where everybody was stopped well", () => {
    for (const part of [{ duplicated: one }, { repeated: one }]) {
      assertEquals(problemsOf({ ...good, ...part }).length, 1);
      assertEquals(problemsOf({ ...good, ...part, gentle: false }), []);
    }
  });

  it("names what was lost, with all that happened to it", () => {
    const [problem] = problemsOf({ ...good, lost: one });
    assertEquals(problem, "1 messages were lost:\n    1: never begun");
  });
});

describe("the ledger", () => {
  it("tells what was done once, twice, again and never", () => {
    const ledger = new Ledger();
    ledger.begin("a", "1", 1);
    ledger.done("a", "1");
    ledger.begin("a", "2", 1);
    ledger.begin("b", "2", 2);
    ledger.done("a", "2");
    ledger.done("b", "2");
    ledger.begin("a", "3", 1);
    assertEquals(ledger.completed, 2);
    assertEquals([...ledger.duplicated], ["2"]);
    assertEquals([...ledger.repeated], ["2"]);
    assertEquals(ledger.missing(4), ["3", "4"]);
  });
});

describe("a seed", () => {
  it("repeats what it has made, and another one does not", () => {
    const numbers = (seed: number) => {
      const random = new SeededRandom(seed);
      return [random.next(), random.between(5, 6), random.pick([1, 2, 3]), random.shuffle([1, 2])];
    };
    assertEquals(numbers(7), numbers(7));
    assertEquals(new Set([1, 2, 3, 4, 5].map((seed) => `${numbers(seed)}`)).size, 5);
  });
});

describe("the command line", () => {
  it("knows the faults of an engine, and refuses what it does not know", () => {
    assertEquals(faultsOf("redis", "term"), ["term"]);
    assertEquals(faultsOf("sqlite", "all"), ["term", "kill", "pause"]);
    assertEquals(parseOptions(["--faults", "kill,freeze"]).faults, ["kill", "freeze"]);
    for (const args of [["--faults", "flood"], ["--engine", "paper"], ["--messages", "0"]]) {
      assertThrows(() => parseOptions(args), RangeError, args[1]);
    }
  });
});
