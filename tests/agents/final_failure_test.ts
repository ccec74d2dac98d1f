import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapters/scripted.ts";
import { redrive } from "../../src/loops/redrive.ts";
import type { DeadLetterOptions } from "../../src/mailbox/dead_letters.ts";
import { Office } from "./_office.ts";

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
    it(`${how} never gets an output as a reply when dead-lettering fails`, async () => {
      const office = new Office();
      await office.ask("tea");
      office.requests.loseConnection({ operations: ["deadLetter"], calls: 5 });
      const loop = office.loop({ adapter: failing(failures), deadLetter });
      await office.workOff(loop);
      assert(office.heard.length > 0, "the requester gets a reply");
      assertEquals(new Set(office.heard), new Set(["Error"]));
      assertEquals(await office.requests.deadLetters.approximateCount(), 1);
      assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 0]);
    });

    it(`${how} never gets an output as a reply when its worker dies after the error reply`, async () => {
      const office = new Office();
      await office.ask("tea");
      office.requests.freeze("deadLetter");
      const options = { adapter: failing(failures), deadLetter };
      const dead = office.loop(options).run({ visibilityTimeoutMs: 10_000 });
      await office.clock.advance(3_000);
      assertEquals(office.heard, ["Error"], "the reply is sent before dead-lettering");
      const survivor = office.loop(options);
      const run = survivor.run();
      await office.clock.advance(20_000);
      office.requests.thaw();
      await office.clock.advance(1_000);
      assertEquals(new Set(office.heard), new Set(["Error"]));
      assertEquals(await office.requests.deadLetters.approximateCount(), 1);
      assertEquals(await office.requests.approximateCount(), 0);
      await office.clock.until(survivor.shutdown());
      await run;
      dead.catch(() => {});
    });

    it(`${how} is attempted again after a redrive, even in the same millisecond`, async () => {
      const office = new Office();
      await office.ask("tea");
      const calls: number[] = [];
      const backoff = { minMs: 0, maxMs: 0 };
      const options = { adapter: failing(failures, calls), deadLetter, backoff };
      await office.clock.until(office.loop(options).run({ maxIterations: failures }));
      assertEquals(office.heard, ["Error"]);
      assertEquals(await redrive(office.requests, { clock: office.clock }), 1);
      const loop = office.loop(options);
      await office.workOff(loop);
      assertEquals([calls.length, loop.counts.acknowledged], [failures + 1, 1]);
    });
  }

  it("gets no error reply when the failure cannot be saved", async () => {
    const office = new Office();
    await office.ask("tea");
    office.requests.loseConnection({ operations: ["checkpoint", "deadLetter"], calls: 8 });
    await office.workOff(
      office.loop({
        adapter: failing(1),
        deadLetter: { maxDeliveries: 5, include: [RangeError] },
      }),
    );
    assertEquals(office.heard, ["answer 2"], "the next delivery decides");
    assertEquals(await office.requests.deadLetters.approximateCount(), 0);
  });

  it("keeps its progress in the dead letter", async () => {
    const office = new Office();
    await office.ask("tea");
    const loop = office.loop({
      deadLetter: { maxDeliveries: 1 },
      prepare: async (_, { checkpoint }) => {
        await checkpoint({ step: 1 });
        throw new Error("no");
      },
    });
    await office.workOff(loop);
    const [letter] = await office.requests.deadLetters.receive();
    const { progress } = letter!.body.checkpoint as { readonly progress: unknown };
    assertEquals(progress, { step: 1 });
  });
});

describe("a finalize that returns nothing", () => {
  it("leaves the output unchanged", async () => {
    const office = new Office();
    const seen: string[] = [];
    await office.ask("tea");
    await office.workOff(office.loop({ finalize: (output) => void seen.push(output) }));
    assertEquals([office.heard, seen], [["tea!"], ["tea!"]]);
  });
});
