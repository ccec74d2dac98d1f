import { describe, it } from "node:test";
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { AgentLoop } from "../../src/agents/agent_loop.ts";
import type { AgentRequest, AgentResult } from "../../src/agents/agent_request.ts";
import { scriptedAdapter } from "../../src/agents/adapters/scripted.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { MainLoop } from "../../src/agents/mod.ts";
import { deafAdapter, Office } from "./_office.ts";

describe("AgentLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const office = new Office();
        return { clock: office.clock, runnable: office.loop() };
      }));
  }

  it("replies to a request and acknowledges it", async () => {
    const office = new Office();
    const id = await office.ask("tea", { sessionId: "s1" });
    const loop = office.loop({ finalize: (output) => output.toUpperCase(), workerId: "w1" });
    await office.workOff(loop);
    const [result] = office.replies.bodies;
    assertEquals(result, {
      requestId: id,
      output: "TEA!",
      sessionId: "s1",
      runContext: {
        runId: result!.runContext.runId,
        requestId: id,
        attempt: 1,
        workerId: "w1",
      },
      completedAt: result!.completedAt,
    });
    assertEquals([loop.counts.acknowledged, await office.requests.approximateCount()], [1, 0]);
    assertEquals(office.clock.pending, 0);
  });

  it("stops extending the lease before it replies", async () => {
    const office = new Office();
    const loop = office.loop({
      adapter: office.parrot(2_500),
      lease: { intervalMs: 1_000 },
    });
    const attempts: number[] = [];
    const replyTo = {
      name: "slow",
      async send(): Promise<string> {
        attempts.push(loop.leases.counters.attempts);
        await office.clock.sleep(5_000);
        attempts.push(loop.leases.counters.attempts);
        return "";
      },
    };
    await office.requests.send({ request: "tea" }, { replyTo });
    await office.workOff(loop);
    assertEquals(attempts, [2, 2]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("extends the lease of a message that takes longer than its visibility timeout", async () => {
    const office = new Office();
    const calls: string[] = [];
    const adapter = scriptedAdapter(async ({ messages }) => {
      calls.push(messages[0]!.content);
      await office.clock.sleep(5_000);
      return "done";
    });
    await office.ask("slow");
    const loop = office.loop({ adapter, lease: { intervalMs: 500, extensionMs: 10_000 } });
    const run = loop.run({ maxIterations: 1, visibilityTimeoutMs: 2_000 });
    await office.clock.advance(4_000);
    assertEquals(await office.requests.receive(), [], "no other consumer receives it");
    await office.clock.until(run);
    assertEquals([calls.length, office.heard], [1, ["done"]]);
  });

  it("warns and acknowledges when a request has no reply address", async () => {
    const office = new Office();
    await office.requests.send({ request: "tea", requestId: "r1" });
    const loop = office.loop();
    await office.workOff(loop);
    assertEquals(office.logged, ["request r1 has no reply address: its result is dropped"]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("replies with the error and acknowledges without a dead-letter policy", async () => {
    const office = new Office();
    await office.ask("tea");
    const loop = office.loop({ adapter: scriptedAdapter([new TypeError("no")]) });
    await office.workOff(loop);
    assertEquals(office.replies.bodies[0]?.error, { name: "TypeError", message: "no" });
    assertEquals([loop.counts.acknowledged, loop.counts.nacked], [1, 0]);
  });

  it("with a dead-letter policy retries and replies only once, with the final outcome", async () => {
    const office = new Office();
    const adapter = scriptedAdapter([new Error("busy"), new Error("busy"), "at last"]);
    await office.ask("tea");
    await office.workOff(office.loop({ adapter, deadLetter: { maxDeliveries: 3 } }));
    assertEquals(office.heard, ["at last"]);

    await office.ask("cake");
    const failing = scriptedAdapter([new Error("no cake")]);
    const loop = office.loop({ adapter: failing, deadLetter: { maxDeliveries: 3 } });
    await office.workOff(loop);
    assertEquals([loop.counts.nacked, loop.counts.deadLettered], [2, 1]);
    assertEquals(office.replies.bodies.slice(1).map(({ error }) => error?.message), [
      "Error: no cake",
    ]);
    assertEquals(await office.requests.deadLetters.approximateCount(), 1);
  });

  it("replies with an error for a request that repeatedly kills its process", async () => {
    const office = new Office();
    await office.ask("poison");
    for (let i = 0; i < 3; i++) { // from the third on, the loop handles it alone
      const [message] = await office.requests.receive();
      await office.requests.expire(message!);
    }
    await office.workOff(office.loop({ deadLetter: { maxDeliveries: 2 } }));
    assertEquals(office.replies.bodies.length, 1);
    assert(office.replies.bodies[0]?.error?.message.includes("delivered 4 times"));
  });

  it("dead-letters an invalid request and replies with the reasons", async () => {
    const office = new Office();
    const malformed = [
      "tea",
      { request: "tea", requestId: "" },
      { request: "tea", deadlineMs: -1 },
      { request: "tea", budget: { maxTotalTokens: 0.5 } },
      { request: "tea", trace: { traceparent: 1 } },
      null,
    ] as unknown as AgentRequest<string>[];
    await office.requests.sendMany(malformed, { replyTo: office.replies });
    const loop = office.loop();
    await office.workOff(loop);
    assertEquals(loop.counts.deadLettered, malformed.length);
    assertEquals(office.replies.bodies.map(({ error }) => error?.message), [
      'expected an object with a "request"',
      "requestId: expected a non-empty string",
      "deadlineMs: expected a number above 0",
      "budget: expected limits that are whole numbers from 1",
      "trace: expected a traceparent",
      'expected an object with a "request"',
    ]);
  });

  it("checks requests with the schema option", async () => {
    const office = new Office();
    const schema = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: (value: unknown) =>
          typeof value === "string"
            ? { value: value.trim() }
            : { issues: [{ message: "expected a text", path: ["deep"] }] },
      },
    } as const;
    await office.ask(" tea ");
    await office.ask(42 as unknown as string);
    await office.workOff(office.loop({ schema }));
    assertEquals(office.replies.bodies.map(({ output, error }) => output ?? error?.message), [
      "tea!",
      "request.deep: expected a text",
    ]);
  });

  it("gives each attempt a new run id and passes on the trace of the request", async () => {
    const office = new Office();
    const runs: AgentResult<string>["runContext"][] = [];
    const trace = { traceparent: "00-1-2-01" };
    await office.ask("tea", { requestId: "r7", trace });
    const adapter = scriptedAdapter((_, { run }) => {
      runs.push(run);
      return runs.length < 3 ? new Error("busy") : "ok";
    });
    await office.workOff(office.loop({ adapter, deadLetter: {} }));
    assertEquals(runs.map(({ attempt }) => attempt), [1, 2, 3]);
    assertEquals(new Set(runs.map(({ runId }) => runId)).size, 3);
    assertEquals(new Set(runs.map(({ workerId }) => workerId)).size, 1);
    assert(runs.every((run) => run.requestId === "r7" && run.trace?.traceparent === "00-1-2-01"));
    assertEquals(office.replies.bodies[0]?.runContext, runs[2]);
  });

  it("continues the trace of the message when the request has none", async () => {
    const office = new Office();
    const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const options = { replyTo: office.replies, trace: { traceparent: span } };
    await office.requests.send({ request: "tea" }, options);
    await office.requests.send({ request: "cake", trace: { traceparent: "own" } }, options);
    await office.workOff(office.loop());
    const traces = office.replies.bodies.map(({ runContext }) => runContext.trace?.traceparent);
    assertEquals(traces, [span, "own"]);
  });

  it("passes saved progress to the next attempt", async () => {
    const office = new Office();
    const seen: unknown[] = [];
    await office.ask("tea");
    const loop = office.loop({
      deadLetter: {},
      adapter: scriptedAdapter([new Error("busy"), "ok"]),
      prepare: async (content, { progress, checkpoint }) => {
        seen.push(progress);
        await checkpoint({ step: 1 });
        return { prompt: { messages: [{ role: "user", content }] } };
      },
    });
    await office.workOff(loop);
    assertEquals(seen, [undefined, { step: 1 }]);
  });

  it("execute works without a mailbox and returns a failure in the result", async () => {
    const office = new Office();
    const loop = office.loop();
    const result = await loop.execute({ request: "tea", requestId: "r1" });
    assertEquals([result.output, result.requestId, result.runContext.attempt], ["tea!", "r1", 1]);
    const again = await loop.execute({ request: "tea", requestId: "r1" });
    assertNotEquals(again.runContext.runId, result.runContext.runId);
    const failing = office.loop({ adapter: scriptedAdapter([new Error("no")]) });
    assertEquals((await failing.execute({ request: "tea" })).error?.message, "no");
    const aborted = AbortSignal.abort(new Error("never mind"));
    const { error } = await loop.execute({ request: "tea" }, { signal: aborted });
    assertEquals(error?.message, "never mind");
  });

  it("releases a message without a reply when a stop cancels its attempt", async () => {
    const office = new Office();
    await office.ask("tea");
    const loop = office.loop({ adapter: deafAdapter });
    const run = loop.run();
    await office.clock.advance(100);
    await office.clock.until(loop.shutdown({ timeoutMs: 1_000 }));
    await run;
    assertEquals([loop.counts.released, office.replies.bodies.length], [1, 0]);
    const [message] = await office.requests.receive();
    assertEquals([message?.body.request, message?.deliveryCount], ["tea", 1]);
  });

  it("releases unstarted messages on a stop", async () => {
    const office = new Office();
    for (const name of ["one", "two", "three"]) await office.ask(name);
    const loop = office.loop({ adapter: office.parrot(1_000), prefetch: 2 });
    const run = loop.run();
    await office.clock.advance(500);
    await office.clock.until(loop.shutdown());
    await run;
    assertEquals(office.heard, ["one!"]);
    const rest = await office.requests.receive({ maxMessages: 10 });
    assertEquals(rest.map(({ body, deliveryCount }) => [body.request, deliveryCount]), [
      ["two", 1],
      ["three", 1],
    ]);
  });

  it("reports each piece of an answer to the lease and the watchdog", async () => {
    const office = new Office();
    const pieces = ["a", "b", "c", "d"];
    await office.ask("talkative");
    const adapter = scriptedAdapter([pieces], { delayMs: 800, clock: office.clock });
    const talkative = office.loop({ adapter, lease: { beatWithinMs: 1_000, intervalMs: 200 } });
    const run = talkative.run({ visibilityTimeoutMs: 1_000 });
    await office.clock.advance(2_500);
    assert(talkative.heartbeat.ageMs < 800);
    await office.clock.advance(1_000);
    await office.clock.until(talkative.shutdown());
    await run;
    assertEquals([office.heard, talkative.leases.counters.withheld], [["abcd"], 0]);

    await office.ask("silent");
    const silent = office.loop({
      adapter: deafAdapter,
      lease: { beatWithinMs: 1_000, intervalMs: 200 },
    });
    const stuck = silent.run({ visibilityTimeoutMs: 1_000 });
    await office.clock.advance(3_000);
    assert(silent.leases.counters.withheld > 0, "without heartbeats the lease expires");
    await office.clock.until(silent.shutdown({ timeoutMs: 1_000 }));
    await stuck;
  });

  it("rejects invalid options in the constructor", () => {
    const office = new Office();
    const make = (options: object) => () => office.loop(options);
    assertThrows(make({ adapter: {} }), TypeError, 'Invalid adapter of loop "requests"');
    assertThrows(make({ prepare: "tea" }), TypeError, "Invalid prepare");
    assertThrows(make({ deadlineMs: -1 }), RangeError, "deadlineMs");
    assertThrows(make({ budget: { maxInputTokens: 0 } }), RangeError, "maxInputTokens");
  });

  it("is also exported as MainLoop", () => assertEquals(MainLoop, AgentLoop));
});
