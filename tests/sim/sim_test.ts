import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { reduce, scenarioOf } from "../../sim/explore.ts";
import { findMutants, mutate } from "../../sim/mutation.ts";
import { MUTANTS } from "../../sim/mutants.ts";
import { exploreAll } from "../../sim/pool.ts";
import { failureText, totalsText } from "../../sim/report.ts";
import { simulate } from "../../sim/simulation.ts";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, type RuntimeName } from "../../tools/runtimes.ts";
import { seed } from "../_seed.ts";

/** How many fresh seeds each run simulates. */
const SEEDS = 4_000;

/** How many seeds are compared on all runtimes. */
const COMPARED = 60;

/** How many planted bugs each run searches for: others each time. */
const PLANTED = 5;

/** A bug that takes a few hundred seeds on average may take many more. */
const MOST_SEEDS = 4_000;

const RUNTIMES: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: ["run"],
  deno: ["run", "--allow-all", "--no-check"],
};

describe("the simulator", () => {
  it(`breaks no rule in ${SEEDS} scenarios (seed ${seed})`, async (test) => {
    const startedAt = performance.now();
    const { failure, ...totals } = await exploreAll({ first: seed, count: SEEDS });
    test.diagnostic(totalsText(totals, performance.now() - startedAt));
    if (failure === undefined) return;
    throw new Error(failureText(failure.seed, await reduce(failure.seed, failure.rule)));
  });

  it(`does the same on Deno, Bun and Node (seed ${seed})`, async () => {
    const args = [join(root, "sim", "_hash.ts"), `${seed}`, `${COMPARED}`];
    const outputs = await Promise.all(
      Object.entries(RUNTIMES).map(async ([name, options]) => {
        const program = runtimeBinary(name as RuntimeName);
        const { output, code } = await run(program, [...options, ...args]);
        assertEquals(code, 0, output);
        return output.split("\n").find((line) => line.startsWith("{"));
      }),
    );
    assert(outputs[0] !== undefined);
    assertEquals(outputs, [outputs[0], outputs[0], outputs[0]]);
  });

  it(`repeats a seed step by step (seed ${seed})`, async () => {
    const scenario = scenarioOf(seed);
    const [first, second] = [await simulate(scenario), await simulate(scenario)];
    assertEquals(String(second.timeline), String(first.timeline));
    assertEquals([second.hash, second.steps], [first.hash, first.steps]);
  });

  it("every planted bug fits the sources", () => {
    for (const mutant of MUTANTS) assert(mutate(mutant).includes(mutant.replace), mutant.name);
    assertEquals(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length);
  });

  it(`finds ${PLANTED} of the planted bugs (seed ${seed})`, async (test) => {
    const from = seed % MUTANTS.length;
    const chosen = [...MUTANTS.slice(from), ...MUTANTS.slice(0, from)].slice(0, PLANTED);
    const names = chosen.map(({ name }) => name);
    const found = await findMutants({
      seeds: MOST_SEEDS,
      names,
      onFound: (line) => test.diagnostic(line),
    });
    assertEquals(found.filter(({ rule }) => rule === undefined), []);
  });
});
