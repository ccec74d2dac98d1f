import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { redrive } from "../../src/loops/redrive.ts";
import type { DeadLetterOptions } from "../../src/mailbox/dead_letters.ts";
import { Fixture } from "./_fixture.ts";

/** Returns a model that fails the first calls and records all calls. */
function failing(failures: number, calls: number[] = []): Adapter {
  return scriptedAdapter(() => {
    if (calls.push(calls.length) <= failures) throw new RangeError("not today");
    return `answer ${calls.length}`;
  });
}

interface FailureCase {
  readonly failures: number;
  readonly deadLetter: DeadLetterOptions;
}

/** Final failures. Any further attempt would succeed. */
const cases: Readonly<Record<string, FailureCase>> = {
  "after its last attempt": { failures: 2, deadLetter: { maxDeliveries: 2 } },
  "because of its error class": {
    failures: 1,
    deadLetter: { maxDeliveries: 5, include: [RangeError] },
  },
};

describe("a request that failed for good", () => {
  for (const [how, { failures, deadLetter }] of Object.entries(cases)) {
    it(`a request that failed for good ${how} never gets an output as a reply when dead-lettering fails`, async () => {
      const fixture = new Fixture();
      await fixture.ask("tea");
      fixture.requests.loseConnection({ operations: ["deadLetter"], calls: 5 });
      const loop = fixture.loop({ adapter: failing(failures), deadLetter });
      await fixture.workOff(loop);
      assert(fixture.replied.length > 0, "the requester gets a reply");
      assertEquals(new Set(fixture.replied), new Set(["Error"]));
      assertEquals(await fixture.requests.deadLetters.approximateCount(), 1);
      assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 0]);
    });

    it(`a request that failed for good ${how} never gets an output as a reply when its worker dies after the error reply`, async () => {
      const fixture = new Fixture();
      await fixture.ask("tea");
      fixture.requests.freeze("deadLetter");
      const options = { adapter: failing(failures), deadLetter };
      const dead = fixture.loop(options).run({ visibilityTimeoutMs: 10_000 });
      await fixture.clock.advance(3_000);
      assertEquals(fixture.replied, ["Error"], "the reply is sent before dead-lettering");
      const survivor = fixture.loop(options);
      const run = survivor.run();
      await fixture.clock.advance(20_000);
      fixture.requests.thaw();
      await fixture.clock.advance(1_000);
      assertEquals(new Set(fixture.replied), new Set(["Error"]));
      assertEquals(await fixture.requests.deadLetters.approximateCount(), 1);
      assertEquals(await fixture.requests.approximateCount(), 0);
      await fixture.clock.until(survivor.shutdown());
      await run;
      dead.catch(() => {});
    });

    it(`a request that failed for good ${how} is attempted again after a redrive, even in the same millisecond`, async () => {
      const fixture = new Fixture();
      await fixture.ask("tea");
      const calls: number[] = [];
      const backoff = { minMs: 0, maxMs: 0 };
      const options = { adapter: failing(failures, calls), deadLetter, backoff };
      await fixture.clock.until(fixture.loop(options).run({ maxIterations: failures }));
      assertEquals(fixture.replied, ["Error"]);
      assertEquals(await redrive(fixture.requests, { clock: fixture.clock }), 1);
      const loop = fixture.loop(options);
      await fixture.workOff(loop);
      assertEquals([calls.length, loop.counts.acknowledged], [failures + 1, 1]);
    });
  }

  it("a request that failed for good gets no error reply when the failure cannot be saved", async () => {
    const fixture = new Fixture();
    await fixture.ask("tea");
    fixture.requests.loseConnection({ operations: ["checkpoint", "deadLetter"] });
    let attempts = 0;
    await fixture.workOff(
      fixture.loop({
        adapter: scriptedAdapter(() => {
          if (++attempts === 1) throw new RangeError("not today");
          fixture.requests.restoreConnection(); // the lease of the first delivery has ended
          return `answer ${attempts}`;
        }),
        visibilityTimeoutMs: 5_000,
        deadLetter: { maxDeliveries: 5, include: [RangeError] },
      }),
    );
    assertEquals(fixture.replied, ["answer 2"], "the next delivery decides");
    assertEquals(await fixture.requests.deadLetters.approximateCount(), 0);
  });

  it("a request that failed for good keeps its progress in the dead letter", async () => {
    const fixture = new Fixture();
    await fixture.ask("tea");
    const loop = fixture.loop({
      deadLetter: { maxDeliveries: 1 },
      prepare: async (_, { checkpoint }) => {
        await checkpoint({ step: 1 });
        throw new Error("no");
      },
    });
    await fixture.workOff(loop);
    const [letter] = await fixture.requests.deadLetters.receive();
    const { progress } = letter!.body.checkpoint as { readonly progress: unknown };
    assertEquals(progress, { step: 1 });
  });
});

describe("a finalize that returns nothing", () => {
  it("a finalize that returns nothing leaves the output unchanged", async () => {
    const fixture = new Fixture();
    const seen: string[] = [];
    await fixture.ask("tea");
    await fixture.workOff(fixture.loop({ finalize: (output) => void seen.push(output) }));
    assertEquals([fixture.replied, seen], [["tea!"], ["tea!"]]);
  });
});
