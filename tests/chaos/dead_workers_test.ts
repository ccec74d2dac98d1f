import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { faultsOf } from "../../chaos/options.ts";
import { options, runIfSupported, sites } from "./_runs.ts";

// At the same time on all engines, because these tests mostly wait until dead workers are noticed.

describe("workers that are killed or suspended", { concurrency: true }, () => {
  for (const [engine, site] of sites) {
    it(
      `${engine} brings back the messages of killed workers, takes none from suspended ones, and repeats no step and no cron slot`,
      { skip: site.skip },
      async (t) => {
        const faults = faultsOf(site, "term,kill,suspend", true);
        const modes = { longLeases: true, steps: true, cron: true };
        const run = { ...options, ...modes, engine, faults, messages: 300, seconds: 4 };
        const result = await runIfSupported(t, run);
        if (result !== undefined) assertEquals(result.completed, 300);
      },
    );
  }
});

describe("messages that kill their workers", { concurrency: true }, () => {
  for (const [engine, site] of sites) {
    it(
      `${engine} dead-letters only the messages that kill their workers, and keeps pauses and the rate limit`,
      { skip: site.skip },
      async (t) => {
        const faults = faultsOf(site, "pause", true);
        const modes = { longLeases: true, poison: 1, limit: 20 };
        const run = { ...options, ...modes, engine, faults, messages: 150, seconds: 2 };
        const result = await runIfSupported(t, run);
        if (result !== undefined) assertEquals(result.completed, 149);
      },
    );
  }
});
