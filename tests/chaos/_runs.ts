// What the daily chaos tests share.

import type { TestContext } from "node:test";
import { assertEquals } from "@std/assert";
import { type ChaosResult, problemsOf, textOf } from "../../chaos/_result.ts";
import { type ChaosOptions, UnsupportedError } from "../../chaos/options.ts";
import { runChaos } from "../../chaos/run.ts";
import { type ChaosSite, loadSite, SITE_NAMES } from "../../chaos/sites.ts";
import { seed } from "../_seed.ts";

/** Small, because these tests run every day; `npm run chaos` runs longer. */
export const options: Omit<ChaosOptions, "engine" | "faults" | "seconds" | "seed"> = {
  messages: 500,
  workers: 3,
  faultsPerSecond: 2,
  keys: 0,
  cancels: 0,
  longLeases: false,
  poison: 0,
  steps: false,
  limit: 0,
  cron: false,
  rolling: false,
};

/** The engines with their names. */
export const sites: readonly (readonly [string, ChaosSite])[] = await Promise.all(
  SITE_NAMES.map(async (name) => [name, await loadSite(name)] as const),
);

/** Returns the seed of a run, which is above 0. A failed run prints it. */
export const newSeed = (): number => Math.max(1, seed);

/** Runs the options. Skips the test and returns undefined when the engine does not support them. */
export async function runIfSupported(
  t: TestContext,
  options: Omit<ChaosOptions, "seed">,
): Promise<ChaosResult | undefined> {
  let result: ChaosResult;
  try {
    result = await runChaos({ ...options, seed: newSeed() });
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error;
    t.skip(error.message);
    return undefined;
  }
  t.diagnostic(textOf(result));
  assertEquals(problemsOf(result), []);
  return result;
}
