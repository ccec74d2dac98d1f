import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { isBalanced } from "../../src/lifecycle/runnable.ts";
import type { Handler } from "../../src/loops/handler.ts";
import { seed } from "../_seed.ts";
import { Worker } from "./_worker.ts";

/** How the handler of one message behaves. */
const behaviour = fc.record({
  kind: fc.constantFrom("works", "works", "works", "fails", "obeys", "ignores", "settles"),
  ms: fc.integer({ min: 0, max: 3_000 }),
});

const scenario = fc.record({
  behaviours: fc.array(behaviour, { minLength: 1, maxLength: 25 }),
  concurrency: fc.integer({ min: 1, max: 5 }),
  prefetch: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant("auto" as const)),
  stopAtMs: fc.integer({ min: 0, max: 5_000 }),
  timeoutMs: fc.constantFrom(0, 100, 1_000, 10_000),
});

type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never;

function handlerFor({ behaviours }: Scenario, worker: Worker, started: number[]): Handler<number> {
  return async (message, { signal }) => {
    const { kind, ms } = behaviours[message.body - 1]!;
    started.push(message.body);
    if (kind === "obeys") await worker.clock.sleep(Infinity, { signal });
    if (kind === "ignores") await new Promise(() => {});
    await worker.clock.sleep(ms);
    if (kind === "fails") throw new Error("as told");
    if (kind === "settles") await message.acknowledge();
  };
}

describe(`a stop at any moment (seed ${seed})`, () => {
  it("leaves every message in exactly one place, and the counts tell which", async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async (given) => {
        const worker = new Worker();
        const { clock, mailbox } = worker;
        await worker.fill(given.behaviours.length);
        const { concurrency, prefetch, stopAtMs, timeoutMs } = given;
        const deadLetter = { maxDeliveries: 2 };
        const options = { concurrency, prefetch, deadLetter };
        const loop = worker.loop(handlerFor(given, worker, []), options);
        loop.run();
        await clock.advance(stopAtMs);
        const clean = await clock.until(loop.shutdown({ timeoutMs }));

        const { counts } = loop;
        assert(isBalanced(counts), JSON.stringify(counts));
        if (clean) assertEquals(counts.leftToExpire, 0);
        const stored = await mailbox.approximateCount() +
          await mailbox.deadLetters.approximateCount();
        assertEquals(stored + counts.acknowledged, given.behaviours.length);
        assertEquals(await mailbox.deadLetters.approximateCount(), counts.deadLettered);
        await loop.abandon();
        assert(isBalanced(loop.counts));
        assertEquals(loop.counts.leftToExpire, 0, "abandoned: everything was given back");
      }),
      { numRuns: 300, seed },
    );
  });

  it("that is clean duplicates nothing", async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async (given) => {
        const worker = new Worker();
        const { clock, mailbox } = worker;
        const works = given.behaviours.map(({ ms }) => ({ kind: "works" as const, ms }));
        await worker.fill(works.length);
        const started: number[] = [];
        const handler = handlerFor({ ...given, behaviours: works }, worker, started);
        const { concurrency, prefetch, stopAtMs } = given;
        const loop = worker.loop(handler, { concurrency, prefetch });
        const run = loop.run();
        await clock.advance(stopAtMs);
        assertEquals(await clock.until(loop.shutdown({ timeoutMs: 10_000 })), true);
        await run;
        await worker.workOff(worker.loop(handler, { concurrency }));
        assertEquals(await mailbox.approximateCount(), 0);
        assertEquals(started.sort((a, b) => a - b), works.map((_, i) => i + 1));
        assertEquals(clock.pending, 0);
      }),
      { numRuns: 200, seed },
    );
  });
});
