// Many simulations, one after the other: each seed makes a scenario.

import * as fc from "fast-check";
import { type Scenario, scenarios } from "./scenario.ts";
import { type Result, simulate } from "./simulation.ts";

/** What many seeds have shown together. */
export interface Totals {
  readonly seeds: number;
  readonly steps: number;
  readonly simulatedMs: number;
  readonly faults: number;
}

/** What seeds have shown. */
export interface Explored extends Totals {
  /** The hash of the hashes of all simulations. */
  readonly hash: number;
  /** The first seed whose simulation broke a rule, and which. */
  readonly failure: { readonly seed: number; readonly rule: string } | undefined;
}

export const NO_TOTALS: Totals = { seeds: 0, steps: 0, simulatedMs: 0, faults: 0 };

/** Adds two totals. */
export function addTotals(a: Totals, b: Totals): Totals {
  return {
    seeds: a.seeds + b.seeds,
    steps: a.steps + b.steps,
    simulatedMs: a.simulatedMs + b.simulatedMs,
    faults: a.faults + b.faults,
  };
}

function options(seed: number): { seed: number; numRuns: number; unbiased: true } {
  return { seed, numRuns: 1, unbiased: true };
}

/** Returns the scenario of a seed. */
export function scenarioOf(seed: number): Scenario {
  let found: Scenario | undefined;
  // The same first run as that of `reduce`, which `fc.sample` is not.
  fc.check(fc.property(scenarios, (scenario) => void (found = scenario)), options(seed));
  return found!;
}

/** Simulates the seeds from `first` on, until one breaks a rule. */
export async function explore(first: number, count: number): Promise<Explored> {
  let totals = NO_TOTALS;
  let hash = 0;
  let failure: Explored["failure"];
  while (totals.seeds < count && failure === undefined) {
    const seed = first + totals.seeds;
    const result = await simulate(scenarioOf(seed));
    totals = addTotals(totals, { ...result, seeds: 1 });
    hash = (hash * 31 + Number.parseInt(result.hash.slice(0, 8), 16)) % 2 ** 40;
    if (result.violation !== undefined) failure = { seed, rule: result.violation.rule };
  }
  return { ...totals, hash, failure };
}

/** The smallest scenario that was found to break a rule. */
export interface Reduced {
  readonly scenario: Scenario;
  readonly result: Result;
  /** How many smaller scenarios broke it on the way. */
  readonly reductions: number;
}

/** How long the search for a smaller scenario may take. */
const REDUCE_MS = 60_000;

/** Searches for a smaller scenario that breaks the same rule as that of `seed`. */
export async function reduce(seed: number, rule: string): Promise<Reduced> {
  const property = fc.asyncProperty(scenarios, async (scenario) => {
    const { violation } = await simulate(scenario);
    return violation?.rule !== rule;
  });
  const { counterexample, numShrinks } = await fc.check(property, {
    ...options(seed),
    interruptAfterTimeLimit: REDUCE_MS,
  });
  const scenario = counterexample?.[0] ?? scenarioOf(seed);
  return { scenario, result: await simulate(scenario), reductions: numShrinks };
}
