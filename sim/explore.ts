// Many simulations, one after the other: each seed makes a scenario.

import * as fc from "fast-check";
import { type Scenario, scenarios } from "./scenario.ts";
import { type Result, simulate } from "./simulation.ts";

/** What seeds have shown together. */
export interface Explored {
  readonly seeds: number;
  readonly steps: number;
  readonly simulatedMs: number;
  readonly faults: number;
  /** The first seed whose simulation broke a rule, and which. */
  readonly failure: { readonly seed: number; readonly result: Result } | undefined;
}

/** Returns the scenario of a seed. */
export function scenarioOf(seed: number): Scenario {
  return fc.sample(scenarios, { seed, numRuns: 1 })[0]!;
}

/** Simulates the seeds from `first` on, until one breaks a rule. */
export async function explore(first: number, count: number): Promise<Explored> {
  let [seeds, steps, simulatedMs, faults] = [0, 0, 0, 0];
  let failure: Explored["failure"];
  while (seeds < count && failure === undefined) {
    const seed = first + seeds;
    const result = await simulate(scenarioOf(seed));
    seeds++;
    steps += result.steps;
    simulatedMs += result.simulatedMs;
    faults += result.faults;
    if (result.violation !== undefined) failure = { seed, result };
  }
  return { seeds, steps, simulatedMs, faults, failure };
}
