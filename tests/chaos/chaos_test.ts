import { describe, it, type TestContext } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { type ChaosResult, problemsOf, textOf } from "../../chaos/_result.ts";
import { type ChaosOptions, faultsOf, UnsupportedError } from "../../chaos/options.ts";
import { runChaos, runRolling } from "../../chaos/run.ts";
import { loadSite, SITE_NAMES } from "../../chaos/sites.ts";

/** Small, because these tests run every day; `npm run chaos` runs longer. */
const options = {
  messages: 500,
  workers: 3,
  faultsPerSecond: 2,
  keys: 0,
  cancels: 0,
  longLeases: false,
  poison: 0,
  steps: false,
  limit: 0,
  rolling: false,
} as const;

/** A failed run prints its seed. */
const seed = () => 1 + Math.floor(Math.random() * 1e9);

/** Runs the options. Skips the test and returns undefined when the engine does not support them. */
async function tryChaos(
  t: TestContext,
  options: Omit<ChaosOptions, "seed">,
): Promise<ChaosResult | undefined> {
  try {
    const result = await runChaos({ ...options, seed: seed() });
    t.diagnostic(textOf(result));
    assertEquals(problemsOf(result), []);
    return result;
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error;
    t.skip(error.message);
    return undefined;
  }
}

const sites = await Promise.all(
  SITE_NAMES.map(async (name) => [name, await loadSite(name)] as const),
);

for (const [engine, site] of sites) {
  describe(`${engine} with faults`, { skip: site.skip }, () => {
    const skip = site.slow ?? false;
    it(
      "loses no message when workers and the server are killed and frozen",
      { skip },
      async (t) => {
        const faults = faultsOf(site, "all");
        const result = await runChaos({ ...options, engine, faults, seconds: 4, seed: seed() });
        t.diagnostic(textOf(result));
        assertEquals(problemsOf(result), []);
        assertEquals([result.sent, result.completed], [options.messages, options.messages]);
      },
    );

    it(`${engine} loses no message and handles none twice when workers stop gracefully`, async (t) => {
      const faults = faultsOf(site, "term");
      const result = await runChaos({ ...options, engine, faults, seconds: 3, seed: seed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.completed, result.duplicated], [options.messages, []]);
    });

    it(
      `${engine} keeps the order of every key, and handles no cancelled message, when workers are killed`,
      { skip: engine === "nats" && "NATS has no keys" },
      async (t) => {
        const keyed = { ...options, messages: 2_000, keys: 50, cancels: 0.1 };
        const faults = faultsOf(site, "term,kill");
        const result = await runChaos({ ...keyed, engine, faults, seconds: 4, seed: seed() });
        t.diagnostic(textOf(result));
        assertEquals(problemsOf(result), []);
        assert(result.cancelled! > 0, "some messages were cancelled");
        assertEquals(result.sent, keyed.messages);
      },
    );
  });
}

describe("what happens to the messages of dead workers", () => {
  for (const [engine, site] of sites) {
    it(
      `${engine} brings back the messages of killed workers, takes none from suspended ones and repeats no step`,
      { skip: site.skip },
      async (t) => {
        const faults = faultsOf(site, "term,kill,suspend", true);
        const modes = { longLeases: true, steps: true };
        const run = { ...options, ...modes, engine, faults, messages: 300, seconds: 4 };
        const result = await tryChaos(t, run);
        if (result !== undefined) assertEquals(result.completed, 300);
      },
    );
  }

  // At the same time, because the tests mostly wait until dead workers are noticed.
  describe("the messages that kill them", { concurrency: true }, () => {
    for (const [engine, site] of sites) {
      it(
        `${engine} dead-letters only the messages that kill their workers, and keeps pauses and the rate limit`,
        { skip: site.skip || (site.slow ?? false) },
        async (t) => {
          const faults = faultsOf(site, "pause", true);
          const modes = { longLeases: true, poison: 2, limit: 50 };
          const run = { ...options, ...modes, engine, faults, messages: 200, seconds: 3 };
          const result = await tryChaos(t, run);
          if (result !== undefined) assertEquals(result.completed, 198);
        },
      );
    }
  });
});

const servers = sites.filter(([, site]) => site.hasServer && site.slow === undefined);
for (const [at, [engine, { skip }]] of servers.entries()) {
  const workers = at === 0 ? 10 : 5; // ten once, five otherwise to save time
  describe(`a rolling deploy of ${workers} workers on ${engine}`, { skip }, () => {
    it(`a rolling deploy on ${engine} loses no message and handles none twice`, async (t) => {
      const rolling = { ...options, engine, workers, faults: [], seconds: 4, rolling: true };
      const result = await runRolling({ ...rolling, seed: seed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.completed, result.duplicated], [result.sent, []]);
    });
  });
}
