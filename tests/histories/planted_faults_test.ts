import { describe, it } from "node:test";
import { assert } from "@std/assert";
import { shareOf } from "../_runtime_share.ts";
import { systemRandom } from "../../src/random.ts";
import { findFailure } from "./_check.ts";
import { planted } from "./_planted.ts";

/** In how many histories each fault must be found. */
const BOUND = 3_000;

describe("histories find an engine that", () => {
  for (const [i, [fault, open]] of [...planted].entries()) {
    const seed = Math.floor(systemRandom.number() * 2 ** 31);
    it(`${fault} (seed ${seed})`, shareOf(i), async () => {
      const { failure, histories } = await findFailure(open(), BOUND, seed);
      assert(failure !== undefined, `no violation in ${histories} histories`);
    });
  }
});
