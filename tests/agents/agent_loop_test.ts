import { describe, it } from "node:test";
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { AgentLoop } from "../../src/agents/agent_loop.ts";
import type { AgentRequest, AgentResult } from "../../src/agents/agent_types.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { MainLoop } from "../../src/agents/mod.ts";
import { Fixture, hangingAdapter } from "./_fixture.ts";

describe("AgentLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const fixture = new Fixture();
        return { clock: fixture.clock, runnable: fixture.loop() };
      }));
  }

  it("AgentLoop replies to a request and acknowledges it", async () => {
    const fixture = new Fixture();
    const id = await fixture.ask("tea", { sessionId: "s1" });
    const loop = fixture.loop({ finalize: (output) => output.toUpperCase(), workerId: "w1" });
    await fixture.workOff(loop);
    const [result] = fixture.replies.bodies;
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
    assertEquals([loop.counts.acknowledged, await fixture.requests.approximateCount()], [1, 0]);
    assertEquals(fixture.clock.pending, 0);
  });

  it("AgentLoop stops extending the lease before it replies", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop({
      adapter: fixture.echo(2_500),
      lease: { intervalMs: 1_000 },
    });
    const attempts: number[] = [];
    const replyTo = {
      name: "slow",
      async send(): Promise<string> {
        attempts.push(loop.leases.counters.attempts);
        await fixture.clock.sleep(5_000);
        attempts.push(loop.leases.counters.attempts);
        return "";
      },
    };
    await fixture.requests.send({ request: "tea" }, { replyTo });
    await fixture.workOff(loop);
    assertEquals(attempts, [2, 2]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("AgentLoop extends the lease of a message that takes longer than its visibility timeout", async () => {
    const fixture = new Fixture();
    const calls: string[] = [];
    const adapter = scriptedAdapter(async ({ messages }) => {
      calls.push(messages[0]!.content);
      await fixture.clock.sleep(5_000);
      return "done";
    });
    await fixture.ask("slow");
    const loop = fixture.loop({ adapter, lease: { intervalMs: 500, extensionMs: 10_000 } });
    const run = loop.run({ maxIterations: 1, visibilityTimeoutMs: 2_000 });
    await fixture.clock.advance(4_000);
    assertEquals(await fixture.requests.receive(), [], "no other consumer receives it");
    await fixture.clock.until(run);
    assertEquals([calls.length, fixture.replied], [1, ["done"]]);
  });

  it("AgentLoop does the work of a request without a reply address for its effect, and acknowledges it", async () => {
    const fixture = new Fixture();
    const effects: string[] = [];
    await fixture.requests.send({ request: "tea", requestId: "r1" });
    const loop = fixture.loop({ finalize: (output) => void effects.push(output) });
    await fixture.workOff(loop);
    assertEquals([effects, fixture.logged], [["tea!"], []], "nothing is wrong with it");
    assertEquals([loop.counts.acknowledged, fixture.replied], [1, []]);
  });

  it("AgentLoop retries and dead-letters a failing request without a reply address, also without a policy", async () => {
    const fixture = new Fixture();
    await fixture.requests.send({ request: "tea" });
    const loop = fixture.loop({ adapter: scriptedAdapter([new TypeError("no")]) });
    await fixture.workOff(loop);
    assertEquals([loop.counts.nacked, loop.counts.deadLettered], [9, 1]);
    const [letter] = await fixture.requests.deadLetters.receive();
    assertEquals(letter?.body.error, "TypeError: no");
  });

  it("AgentLoop replies with the error and acknowledges without a dead-letter policy", async () => {
    const fixture = new Fixture();
    await fixture.ask("tea");
    const loop = fixture.loop({ adapter: scriptedAdapter([new TypeError("no")]) });
    await fixture.workOff(loop);
    assertEquals(fixture.replies.bodies[0]?.error, { name: "TypeError", message: "no" });
    assertEquals([loop.counts.acknowledged, loop.counts.nacked], [1, 0]);
  });

  it("AgentLoop with a dead-letter policy retries and replies only once, with the final outcome", async () => {
    const fixture = new Fixture();
    const adapter = scriptedAdapter([new Error("busy"), new Error("busy"), "at last"]);
    await fixture.ask("tea");
    await fixture.workOff(fixture.loop({ adapter, deadLetter: { maxDeliveries: 3 } }));
    assertEquals(fixture.replied, ["at last"]);

    await fixture.ask("cake");
    const failing = scriptedAdapter([new Error("no cake")]);
    const loop = fixture.loop({ adapter: failing, deadLetter: { maxDeliveries: 3 } });
    await fixture.workOff(loop);
    assertEquals([loop.counts.nacked, loop.counts.deadLettered], [2, 1]);
    assertEquals(fixture.replies.bodies.slice(1).map(({ error }) => error?.message), [
      "Error: no cake",
    ]);
    assertEquals(await fixture.requests.deadLetters.approximateCount(), 1);
  });

  it("AgentLoop replies with an error for a request that repeatedly kills its process", async () => {
    const fixture = new Fixture();
    await fixture.ask("poison");
    for (let i = 0; i < 4; i++) { // from the third on, a loop would handle it alone
      const [message] = await fixture.requests.receive();
      await fixture.requests.expire(message!);
    }
    await fixture.workOff(fixture.loop({ deadLetter: { maxDeliveries: 2 } }));
    assertEquals(fixture.replies.bodies.length, 1);
    assert(fixture.replies.bodies[0]?.error?.message.includes("4 of 4 deliveries"));
  });

  it("AgentLoop dead-letters an invalid request and replies with the reasons", async () => {
    const fixture = new Fixture();
    const malformed = [
      "tea",
      { request: "tea", requestId: "" },
      { request: "tea", deadlineMs: -1 },
      { request: "tea", budget: { maxTotalTokens: 0.5 } },
      { request: "tea", trace: { traceparent: 1 } },
      null,
    ] as unknown as AgentRequest<string>[];
    await fixture.requests.sendMany(malformed, { replyTo: fixture.replies });
    const loop = fixture.loop();
    await fixture.workOff(loop);
    assertEquals(loop.counts.deadLettered, malformed.length);
    assertEquals(fixture.replies.bodies.map(({ error }) => error?.message), [
      'expected an object with a "request"',
      "requestId: expected a non-empty string",
      "deadlineMs: expected a number above 0",
      "budget: expected limits that are whole numbers from 1",
      "trace: expected a traceparent",
      'expected an object with a "request"',
    ]);
  });

  it("AgentLoop checks requests with the schema option", async () => {
    const fixture = new Fixture();
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
    await fixture.ask(" tea ");
    await fixture.ask(42 as unknown as string);
    await fixture.workOff(fixture.loop({ schema }));
    assertEquals(fixture.replies.bodies.map(({ output, error }) => output ?? error?.message), [
      "tea!",
      "request.deep: expected a text",
    ]);
  });

  it("AgentLoop gives each attempt a new run id and passes on the trace of the request", async () => {
    const fixture = new Fixture();
    const runs: AgentResult<string>["runContext"][] = [];
    const trace = { traceparent: "00-1-2-01" };
    await fixture.ask("tea", { requestId: "r7", trace });
    const adapter = scriptedAdapter((_, { run }) => {
      runs.push(run);
      return runs.length < 3 ? new Error("busy") : "ok";
    });
    await fixture.workOff(fixture.loop({ adapter, deadLetter: {} }));
    assertEquals(runs.map(({ attempt }) => attempt), [1, 2, 3]);
    assertEquals(new Set(runs.map(({ runId }) => runId)).size, 3);
    assertEquals(new Set(runs.map(({ workerId }) => workerId)).size, 1);
    assert(runs.every((run) => run.requestId === "r7" && run.trace?.traceparent === "00-1-2-01"));
    assertEquals(fixture.replies.bodies[0]?.runContext, runs[2]);
  });

  it("AgentLoop continues the trace of the message when the request has none", async () => {
    const fixture = new Fixture();
    const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const options = { replyTo: fixture.replies, headers: { traceparent: span } };
    await fixture.requests.send({ request: "tea" }, options);
    await fixture.requests.send({ request: "cake", trace: { traceparent: "own" } }, options);
    await fixture.workOff(fixture.loop());
    const traces = fixture.replies.bodies.map(({ runContext }) => runContext.trace?.traceparent);
    assertEquals(traces, [span, "own"]);
  });

  it("AgentLoop passes saved progress to the next attempt", async () => {
    const fixture = new Fixture();
    const seen: unknown[] = [];
    await fixture.ask("tea");
    const loop = fixture.loop({
      deadLetter: {},
      adapter: scriptedAdapter([new Error("busy"), "ok"]),
      prepare: async (content, { progress, checkpoint }) => {
        seen.push(progress);
        await checkpoint({ step: 1 });
        return { prompt: { messages: [{ role: "user", content }] } };
      },
    });
    await fixture.workOff(loop);
    assertEquals(seen, [undefined, { step: 1 }]);
  });

  it("AgentLoop.execute works without a mailbox and returns a failure in the result", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop();
    const result = await loop.execute({ request: "tea", requestId: "r1" });
    assertEquals([result.output, result.requestId, result.runContext.attempt], ["tea!", "r1", 1]);
    const again = await loop.execute({ request: "tea", requestId: "r1" });
    assertNotEquals(again.runContext.runId, result.runContext.runId);
    const failing = fixture.loop({ adapter: scriptedAdapter([new Error("no")]) });
    assertEquals((await failing.execute({ request: "tea" })).error?.message, "no");
    const aborted = AbortSignal.abort(new Error("never mind"));
    const { error } = await loop.execute({ request: "tea" }, { signal: aborted });
    assertEquals(error?.message, "never mind");
  });

  it("AgentLoop releases a message without a reply when a stop cancels its attempt", async () => {
    const fixture = new Fixture();
    await fixture.ask("tea");
    const loop = fixture.loop({ adapter: hangingAdapter });
    const run = loop.run();
    await fixture.clock.advance(100);
    await fixture.clock.until(loop.shutdown({ timeoutMs: 1_000 }));
    await run;
    assertEquals([loop.counts.released, fixture.replies.bodies.length], [1, 0]);
    const [message] = await fixture.requests.receive();
    assertEquals([message?.body.request, message?.deliveryCount], ["tea", 1]);
  });

  it("AgentLoop releases unstarted messages on a stop", async () => {
    const fixture = new Fixture();
    for (const name of ["one", "two", "three"]) await fixture.ask(name);
    const loop = fixture.loop({ adapter: fixture.echo(1_000), prefetch: 2 });
    const run = loop.run();
    await fixture.clock.advance(500);
    await fixture.clock.until(loop.shutdown());
    await run;
    assertEquals(fixture.replied, ["one!"]);
    const rest = await fixture.requests.receive({ maxMessages: 10 });
    assertEquals(rest.map(({ body, deliveryCount }) => [body.request, deliveryCount]), [
      ["two", 1],
      ["three", 1],
    ]);
  });

  it("AgentLoop reports each piece of an answer to the lease and the watchdog", async () => {
    const fixture = new Fixture();
    const pieces = ["a", "b", "c", "d"];
    await fixture.ask("talkative");
    const adapter = scriptedAdapter([pieces], { delayMs: 800, clock: fixture.clock });
    const talkative = fixture.loop({ adapter, lease: { beatWithinMs: 1_000, intervalMs: 200 } });
    const run = talkative.run({ visibilityTimeoutMs: 1_000 });
    await fixture.clock.advance(2_500);
    assert(talkative.heartbeat.ageMs < 800);
    await fixture.clock.advance(1_000);
    await fixture.clock.until(talkative.shutdown());
    await run;
    assertEquals([fixture.replied, talkative.leases.counters.withheld], [["abcd"], 0]);

    await fixture.ask("silent");
    const silent = fixture.loop({
      adapter: hangingAdapter,
      lease: { beatWithinMs: 1_000, intervalMs: 200 },
    });
    const stuck = silent.run({ visibilityTimeoutMs: 1_000 });
    await fixture.clock.advance(3_000);
    assert(silent.leases.counters.withheld > 0, "without heartbeats the lease expires");
    await fixture.clock.until(silent.shutdown({ timeoutMs: 1_000 }));
    await stuck;
  });

  it("AgentLoop rejects invalid options in the constructor", () => {
    const fixture = new Fixture();
    const make = (options: object) => () => fixture.loop(options);
    assertThrows(make({ adapter: {} }), TypeError, 'Invalid adapter of loop "requests"');
    assertThrows(make({ prepare: "tea" }), TypeError, "Invalid prepare");
    assertThrows(make({ deadlineMs: -1 }), RangeError, "deadlineMs");
    assertThrows(make({ budget: { maxInputTokens: 0 } }), RangeError, "maxInputTokens");
  });

  it("AgentLoop is also exported as MainLoop", () => assertEquals(MainLoop, AgentLoop));
});
