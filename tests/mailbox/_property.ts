import { describe, it } from "node:test";
import { assert } from "@std/assert";
import * as fc from "fast-check";
import type { Clock } from "../../src/clock.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import type { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { type Command, histories } from "./_commands.ts";
import { seed } from "../_seed.ts";
import { History } from "./_history.ts";

/** Engines with one fault each, by what they do wrong. */
export type Faults = Readonly<Record<string, typeof MemoryEngine<unknown>>>;

/** The engine behaves as the model does, in any history. */
export function property(
  make: (clock: Clock) => Engine<unknown>,
): fc.IAsyncPropertyWithHooks<[Command[]]> {
  return fc.asyncProperty(histories, (commands) => new History(make).run(commands));
}

/** Registers a test for each fault: the property must find a counterexample. */
export function findsFaults(faults: Faults): void {
  describe(`the property finds an engine that (seed ${seed})`, () => {
    for (const [fault, Broken] of Object.entries(faults)) {
      it(fault, async () => {
        const broken = property((clock) => new Broken("orders", Infinity, clock));
        const { failed, numRuns } = await fc.check(broken, {
          numRuns: 2_000,
          seed,
          endOnFailure: true,
        });
        assert(failed, `no counterexample in ${numRuns} histories`);
      });
    }
  });
}
