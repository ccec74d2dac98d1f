import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import type { AgentBundle, AgentLoopOptions, AgentResult } from "../../src/agents/agent_types.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { Fixture, hangingAdapter } from "./_fixture.ts";

/** Yields half an answer and throws. */
const brokenAdapter: Adapter = {
  name: "broken",
  async *evaluate() {
    yield await Promise.resolve("half of ");
    throw new Error("connection lost");
  },
};

/** All outcomes of an attempt, and the reply to the requester. */
const PATHS: Readonly<
  Record<string, Partial<AgentLoopOptions<string, string>> & { readonly replied: string }>
> = {
  "a success": { replied: "tea!" },
  "an adapter that throws": {
    adapter: scriptedAdapter([new TypeError("no")]),
    replied: "TypeError",
  },
  "an adapter that hangs": { adapter: hangingAdapter, replied: "DeadlineExceededError" },
  "an adapter that returns an empty answer": {
    adapter: scriptedAdapter([""]),
    replied: "NoAnswerError",
  },
  "an adapter that stops early": { adapter: brokenAdapter, replied: "Error" },
  "a finalize that throws": {
    finalize: () => {
      throw new RangeError("no");
    },
    replied: "RangeError",
  },
  "a finalize that hangs": {
    finalize: () => new Promise<never>(() => {}),
    replied: "DeadlineExceededError",
  },
  "an exceeded budget": { budget: { maxTotalTokens: 1 }, replied: "BudgetExceededError" },
};

describe("an attempt of an AgentLoop", () => {
  for (const [path, { replied, ...options }] of Object.entries(PATHS)) {
    it(`an attempt of an AgentLoop captures the bundle and then cleans up once after ${path}`, async () => {
      const fixture = new Fixture();
      const events: string[] = [];
      const loop = fixture.loop({
        deadlineMs: 5_000,
        prepare: (content) => ({
          prompt: {
            messages: [{ role: "user", content }],
            cleanup: () => void events.push("cleaned up"),
          },
        }),
        captureBundle: ({ output, error }) =>
          void events.push(`captured ${output ?? (error as Error).name}`),
        ...options,
      });
      await fixture.ask("tea");
      await fixture.workOff(loop);
      assertEquals(events, [`captured ${replied}`, "cleaned up"]);
      assertEquals(fixture.replied, [replied]);
      assertEquals(fixture.clock.pending, 0);
    });
  }

  it("an attempt of an AgentLoop replies with the error of a parse that throws", async () => {
    const fixture = new Fixture();
    let cleaned = 0;
    await fixture.ask("tea");
    const loop = fixture.loop({
      prepare: (content) => ({
        prompt: {
          messages: [{ role: "user", content }],
          parse: (answer) => JSON.parse(answer),
          cleanup: () => void cleaned++,
        },
      }),
    });
    await fixture.workOff(loop);
    assertEquals([fixture.replied, cleaned], [["SyntaxError"], 1]);
  });

  it("an attempt of an AgentLoop cleans up a prompt that prepare returns after the deadline", async () => {
    const fixture = new Fixture();
    let cleaned = 0;
    const loop = fixture.loop({
      deadlineMs: 1_000,
      prepare: async (content) => {
        await fixture.clock.sleep(3_000);
        return {
          prompt: { messages: [{ role: "user", content }], cleanup: () => void cleaned++ },
        };
      },
    });
    const result = loop.execute({ request: "tea" });
    await fixture.clock.advance(1_000);
    assertEquals([(await result).error?.name, cleaned], ["DeadlineExceededError", 0]);
    await fixture.clock.advance(2_000);
    assertEquals(cleaned, 1);
  });

  it("an attempt of an AgentLoop cleans up once when a stop cancels the attempt", async () => {
    const fixture = new Fixture();
    let cleaned = 0;
    await fixture.ask("tea");
    const loop = fixture.loop({
      adapter: hangingAdapter,
      prepare: (content) => ({
        prompt: { messages: [{ role: "user", content }], cleanup: () => void cleaned++ },
      }),
    });
    const run = loop.run();
    await fixture.clock.advance(10);
    await fixture.clock.until(loop.shutdown({ timeoutMs: 500 }));
    await run;
    assertEquals(cleaned, 1);
  });

  it("an attempt of an AgentLoop replies with the output when cleanup and captureBundle fail", async () => {
    const fixture = new Fixture();
    await fixture.ask("tea", { requestId: "r1" });
    const loop = fixture.loop({
      prepare: (content) => ({
        prompt: {
          messages: [{ role: "user", content }],
          cleanup: () => Promise.reject(new Error("stuck")),
        },
      }),
      captureBundle: () => Promise.reject(new Error("full")),
    });
    await fixture.workOff(loop);
    assertEquals(fixture.replied, ["tea!"]);
    assertEquals(fixture.logged, [
      "bundle capture failed",
      "prompt cleanup failed",
    ]);
  });

  it("an attempt of an AgentLoop captures turns and usage, also of half an answer, unless the request opts out", async () => {
    const fixture = new Fixture();
    const bundles: AgentBundle<string, string>[] = [];
    const captureBundle = (bundle: AgentBundle<string, string>) => void bundles.push(bundle);
    await fixture.ask("tea please", { sessionId: "s1" });
    await fixture.ask("no trace of it", { bundle: false });
    await fixture.workOff(fixture.loop({ captureBundle }));
    await fixture.ask("tea");
    await fixture.workOff(fixture.loop({ captureBundle, adapter: brokenAdapter }));
    assertEquals(bundles.map(({ session }) => session.turns), [
      [{ role: "user", content: "tea please" }, { role: "assistant", content: "tea please!" }],
      [{ role: "user", content: "tea" }, { role: "assistant", content: "half of " }],
    ]);
    assertEquals(bundles[0]?.session.toJSON().usage, { inputTokens: 2, outputTokens: 2 });
    assertEquals(bundles[0]?.session.id, "s1");
  });

  it("an attempt of an AgentLoop prefers the deadline and the budget of the request over its own", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop({
      adapter: fixture.echo(2_000),
      deadlineMs: 1_000,
      budget: { maxOutputTokens: 1 },
    });
    await fixture.ask("more time", { deadlineMs: 3_000, budget: { maxTotalTokens: 100 } });
    await fixture.ask("more time", { deadlineMs: 3_000 });
    await fixture.ask("more time", { budget: { maxTotalTokens: 100 } });
    await fixture.workOff(loop);
    assertEquals(fixture.replied, ["more time!", "BudgetExceededError", "DeadlineExceededError"]);
  });
});

describe("the reply of an AgentLoop", () => {
  /** Returns an fixture whose reply mailbox can lose its connection. */
  async function awayOffice() {
    const fixture = new Fixture();
    const replies = new FaultyMailbox<AgentResult<string>>("away", { clock: fixture.clock });
    let calls = 0;
    const adapter = scriptedAdapter(() => `answer ${++calls}`);
    await fixture.requests.send({ request: "tea" }, { replyTo: replies });
    return { fixture, replies, adapter, calls: () => calls };
  }

  it("the reply of an AgentLoop is retried without repeating the work, also by another loop, until the mailbox is back", async () => {
    const { fixture, replies, adapter, calls } = await awayOffice();
    replies.loseConnection({ operations: ["send"] });
    const first = fixture.loop({ adapter, deadLetter: { maxDeliveries: 2 } });
    const run = first.run();
    await fixture.clock.advance(30_000);
    assert(first.counts.nacked > 2, "the message was nacked several times");
    await fixture.clock.until(first.shutdown());
    await run;
    replies.restoreConnection();
    const second = fixture.loop({ adapter, deadLetter: { maxDeliveries: 2 } });
    await fixture.workOff(second);
    const [reply] = await replies.receive();
    assertEquals([calls(), reply?.body.output], [1, "answer 1"]);
    assertEquals([second.counts.acknowledged, second.counts.deadLettered], [1, 0]);
  });

  it("the reply of an AgentLoop is retried within the same delivery after a short outage", async () => {
    const { fixture, replies, adapter, calls } = await awayOffice();
    replies.loseConnection({ operations: ["send"], calls: 2 });
    const loop = fixture.loop({ adapter });
    await fixture.workOff(loop);
    assertEquals([calls(), loop.counts.nacked, loop.counts.acknowledged], [1, 0, 1]);
    assertEquals(await replies.approximateCount(), 1);
  });

  it("the reply of an AgentLoop does not delay dead-lettering when it cannot be sent", async () => {
    const { fixture, replies } = await awayOffice();
    replies.loseConnection({ operations: ["send"] });
    const loop = fixture.loop({
      adapter: scriptedAdapter([new Error("no")]),
      deadLetter: { maxDeliveries: 1 },
    });
    await fixture.workOff(loop);
    assertEquals(loop.counts.deadLettered, 1);
    assert(fixture.logged.some((line) => line.includes("onDeadLetter failed")));
  });
});
