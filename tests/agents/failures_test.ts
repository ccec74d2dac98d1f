import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapters/scripted.ts";
import type { AgentBundle, AgentLoopOptions } from "../../src/agents/agent_options.ts";
import type { AgentResult } from "../../src/agents/agent_request.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { deafAdapter, Office } from "./_office.ts";

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
  Record<string, Partial<AgentLoopOptions<string, string>> & { readonly heard: string }>
> = {
  "a success": { heard: "tea!" },
  "an adapter that throws": { adapter: scriptedAdapter([new TypeError("no")]), heard: "TypeError" },
  "an adapter that hangs": { adapter: deafAdapter, heard: "DeadlineExceededError" },
  "an adapter that returns an empty answer": {
    adapter: scriptedAdapter([""]),
    heard: "NoAnswerError",
  },
  "an adapter that stops early": { adapter: brokenAdapter, heard: "Error" },
  "a finalize that throws": {
    finalize: () => {
      throw new RangeError("no");
    },
    heard: "RangeError",
  },
  "a finalize that hangs": {
    finalize: () => new Promise<never>(() => {}),
    heard: "DeadlineExceededError",
  },
  "an exceeded budget": { budget: { maxTotalTokens: 1 }, heard: "BudgetExceededError" },
};

describe("an attempt of an AgentLoop", () => {
  for (const [path, { heard, ...options }] of Object.entries(PATHS)) {
    it(`captures the bundle and then cleans up once after ${path}`, async () => {
      const office = new Office();
      const events: string[] = [];
      const loop = office.loop({
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
      await office.ask("tea");
      await office.workOff(loop);
      assertEquals(events, [`captured ${heard}`, "cleaned up"]);
      assertEquals(office.heard, [heard]);
      assertEquals(office.clock.pending, 0);
    });
  }

  it("replies with the error of a parse that throws", async () => {
    const office = new Office();
    let cleaned = 0;
    await office.ask("tea");
    const loop = office.loop({
      prepare: (content) => ({
        prompt: {
          messages: [{ role: "user", content }],
          parse: (answer) => JSON.parse(answer),
          cleanup: () => void cleaned++,
        },
      }),
    });
    await office.workOff(loop);
    assertEquals([office.heard, cleaned], [["SyntaxError"], 1]);
  });

  it("cleans up a prompt that prepare returns after the deadline", async () => {
    const office = new Office();
    let cleaned = 0;
    const loop = office.loop({
      deadlineMs: 1_000,
      prepare: async (content) => {
        await office.clock.sleep(3_000);
        return {
          prompt: { messages: [{ role: "user", content }], cleanup: () => void cleaned++ },
        };
      },
    });
    const result = loop.execute({ request: "tea" });
    await office.clock.advance(1_000);
    assertEquals([(await result).error?.name, cleaned], ["DeadlineExceededError", 0]);
    await office.clock.advance(2_000);
    assertEquals(cleaned, 1);
  });

  it("cleans up once when a stop cancels the attempt", async () => {
    const office = new Office();
    let cleaned = 0;
    await office.ask("tea");
    const loop = office.loop({
      adapter: deafAdapter,
      prepare: (content) => ({
        prompt: { messages: [{ role: "user", content }], cleanup: () => void cleaned++ },
      }),
    });
    const run = loop.run();
    await office.clock.advance(10);
    await office.clock.until(loop.shutdown({ timeoutMs: 500 }));
    await run;
    assertEquals(cleaned, 1);
  });

  it("replies with the output when cleanup and captureBundle fail", async () => {
    const office = new Office();
    await office.ask("tea", { requestId: "r1" });
    const loop = office.loop({
      prepare: (content) => ({
        prompt: {
          messages: [{ role: "user", content }],
          cleanup: () => Promise.reject(new Error("stuck")),
        },
      }),
      captureBundle: () => Promise.reject(new Error("full")),
    });
    await office.workOff(loop);
    assertEquals(office.heard, ["tea!"]);
    assertEquals(office.logged, [
      "bundle capture failed",
      "prompt cleanup failed",
    ]);
  });

  it("captures turns and usage, also of half an answer, unless the request opts out", async () => {
    const office = new Office();
    const bundles: AgentBundle<string, string>[] = [];
    const captureBundle = (bundle: AgentBundle<string, string>) => void bundles.push(bundle);
    await office.ask("tea please", { sessionId: "s1" });
    await office.ask("no trace of it", { bundle: false });
    await office.workOff(office.loop({ captureBundle }));
    await office.ask("tea");
    await office.workOff(office.loop({ captureBundle, adapter: brokenAdapter }));
    assertEquals(bundles.map(({ session }) => session.turns), [
      [{ role: "user", content: "tea please" }, { role: "assistant", content: "tea please!" }],
      [{ role: "user", content: "tea" }, { role: "assistant", content: "half of " }],
    ]);
    assertEquals(bundles[0]?.session.toJSON().usage, { inputTokens: 2, outputTokens: 2 });
    assertEquals(bundles[0]?.session.id, "s1");
  });

  it("prefers the deadline and the budget of the request over its own", async () => {
    const office = new Office();
    const loop = office.loop({
      adapter: office.parrot(2_000),
      deadlineMs: 1_000,
      budget: { maxOutputTokens: 1 },
    });
    await office.ask("more time", { deadlineMs: 3_000, budget: { maxTotalTokens: 100 } });
    await office.ask("more time", { deadlineMs: 3_000 });
    await office.ask("more time", { budget: { maxTotalTokens: 100 } });
    await office.workOff(loop);
    assertEquals(office.heard, ["more time!", "BudgetExceededError", "DeadlineExceededError"]);
  });
});

describe("the reply of an AgentLoop", () => {
  /** Returns an office whose reply mailbox can lose its connection. */
  async function awayOffice() {
    const office = new Office();
    const replies = new FaultyMailbox<AgentResult<string>>("away", { clock: office.clock });
    let calls = 0;
    const adapter = scriptedAdapter(() => `answer ${++calls}`);
    await office.requests.send({ request: "tea" }, { replyTo: replies });
    return { office, replies, adapter, calls: () => calls };
  }

  it("is retried without repeating the work, also by another loop, until the mailbox is back", async () => {
    const { office, replies, adapter, calls } = await awayOffice();
    replies.loseConnection({ operations: ["send"] });
    const first = office.loop({ adapter, deadLetter: { maxDeliveries: 2 } });
    const run = first.run();
    await office.clock.advance(30_000);
    assert(first.counts.nacked > 2, "the message was nacked several times");
    await office.clock.until(first.shutdown());
    await run;
    replies.restoreConnection();
    const second = office.loop({ adapter, deadLetter: { maxDeliveries: 2 } });
    await office.workOff(second);
    const [reply] = await replies.receive();
    assertEquals([calls(), reply?.body.output], [1, "answer 1"]);
    assertEquals([second.counts.acknowledged, second.counts.deadLettered], [1, 0]);
  });

  it("is retried within the same delivery after a short outage", async () => {
    const { office, replies, adapter, calls } = await awayOffice();
    replies.loseConnection({ operations: ["send"], calls: 2 });
    const loop = office.loop({ adapter });
    await office.workOff(loop);
    assertEquals([calls(), loop.counts.nacked, loop.counts.acknowledged], [1, 0, 1]);
    assertEquals(await replies.approximateCount(), 1);
  });

  it("is dropped when its mailbox is closed", async () => {
    const { office, replies, adapter } = await awayOffice();
    await replies.close();
    const loop = office.loop({ adapter });
    await office.workOff(loop);
    assertEquals(loop.counts.acknowledged, 1);
    assert(office.logged.some((line) => /^result of .* dropped: it cannot be sent/.test(line)));
  });

  it("does not delay dead-lettering when it cannot be sent", async () => {
    const { office, replies } = await awayOffice();
    replies.loseConnection({ operations: ["send"] });
    const loop = office.loop({
      adapter: scriptedAdapter([new Error("no")]),
      deadLetter: { maxDeliveries: 1 },
    });
    await office.workOff(loop);
    assertEquals(loop.counts.deadLettered, 1);
    assert(office.logged.some((line) => line.includes("onDeadLetter failed")));
  });
});
