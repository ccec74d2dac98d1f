import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { problemsOf, textOf } from "../../chaos/_result.ts";
import { faultsOf } from "../../chaos/options.ts";
import { runChaos, runRolling } from "../../chaos/run.ts";
import { newSeed, options, sites } from "./_runs.ts";

for (const [engine, site] of sites) {
  describe(`${engine} with faults`, { skip: site.skip }, () => {
    const skip = site.slow ?? false;
    it(
      "loses no message when workers and the server are killed and frozen",
      { skip },
      async (t) => {
        const faults = faultsOf(site, "all");
        const result = await runChaos({ ...options, engine, faults, seconds: 4, seed: newSeed() });
        t.diagnostic(textOf(result));
        assertEquals(problemsOf(result), []);
        assertEquals([result.sent, result.completed], [options.messages, options.messages]);
      },
    );

    it(`${engine} loses no message and handles none twice when workers stop gracefully`, async (t) => {
      const faults = faultsOf(site, "term");
      const result = await runChaos({ ...options, engine, faults, seconds: 3, seed: newSeed() });
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
        const result = await runChaos({ ...keyed, engine, faults, seconds: 4, seed: newSeed() });
        t.diagnostic(textOf(result));
        assertEquals(problemsOf(result), []);
        assert(result.cancelled! > 0, "some messages were cancelled");
        assertEquals(result.sent, keyed.messages);
      },
    );
  });
}

const servers = sites.filter(([, site]) => site.hasServer && site.slow === undefined);
for (const [at, [engine, { skip }]] of servers.entries()) {
  const workers = at === 0 ? 10 : 5; // ten once, five otherwise to save time
  describe(`a rolling deploy of ${workers} workers on ${engine}`, { skip }, () => {
    it(`a rolling deploy on ${engine} loses no message and handles none twice`, async (t) => {
      const rolling = { ...options, engine, workers, faults: [], seconds: 4, rolling: true };
      const result = await runRolling({ ...rolling, seed: newSeed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.completed, result.duplicated], [result.sent, []]);
    });
  });
}
