import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { faultsOf } from "../../chaos/options.ts";
import { problemsOf, textOf } from "../../chaos/_result.ts";
import { runRolling } from "../../chaos/rolling.ts";
import { runChaos } from "../../chaos/run.ts";
import { hasBinary, missing, nats, redis } from "../engines/_servers.ts";
import { privateOptions } from "../engines/postgres/_private.ts";

const gates = {
  redis: { skip: hasBinary(redis) ? false : missing(redis) },
  postgres: privateOptions,
  sqlite: { skip: false },
  nats: { skip: hasBinary(nats) ? false : missing(nats) },
} as const;

/** Small enough for every day; `npm run chaos` makes more of it. */
const options = { messages: 500, workers: 3, faultsPerSecond: 2, rolling: false } as const;

/** So that a failure can be had again. */
const seed = () => 1 + Math.floor(Math.random() * 1e9);

for (const engine of ["redis", "postgres", "sqlite", "nats"] as const) {
  describe(`${engine} under fire`, gates[engine], () => {
    // On NATS what is lost with a connection comes back after 30 s, which is too long for every day.
    const skip = engine === "nats" && "it takes a minute: npm run chaos -- --engine nats";
    it("loses nothing when workers and the engine are killed and frozen", { skip }, async (t) => {
      const faults = faultsOf(engine, "all");
      const result = await runChaos({ ...options, engine, faults, seconds: 4, seed: seed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.sent, result.completed], [options.messages, options.messages]);
    });

    it("loses nothing and does nothing twice when workers are stopped well", async (t) => {
      const faults = faultsOf(engine, "term");
      const result = await runChaos({ ...options, engine, faults, seconds: 3, seed: seed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.completed, result.duplicated], [options.messages, []]);
    });
  });
}

const deploys = [["redis", 10], ["postgres", 5]] as const;

for (const [engine, workers] of deploys) {
  describe(`${workers} workers on ${engine} that are replaced one by one`, gates[engine], () => {
    it("lose nothing and do nothing twice", async (t) => {
      const rolling = { ...options, engine, workers, faults: [], seconds: 4, rolling: true };
      const result = await runRolling({ ...rolling, seed: seed() });
      t.diagnostic(textOf(result));
      assertEquals(problemsOf(result), []);
      assertEquals([result.completed, result.duplicated], [result.sent, []]);
    });
  });
}
