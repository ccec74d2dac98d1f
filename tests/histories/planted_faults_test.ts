import { describe, it } from "node:test";
import { assert } from "@std/assert";
import { systemRandom } from "../../src/random.ts";
import { findFailure } from "./_check.ts";
import { memorySite } from "./_local_sites.ts";
import { planted } from "./_planted.ts";

/** In how many histories each fault must be found. */
const BOUND = 150;

describe("histories find an engine that", () => {
  for (const [fault, make] of planted) {
    const seed = Math.floor(systemRandom.number() * 2 ** 31);
    it(`${fault} (seed ${seed})`, async () => {
      const { failure, histories } = await findFailure(memorySite(make), BOUND, seed);
      assert(failure !== undefined, `no violation in ${histories} histories`);
    });
  }
});
