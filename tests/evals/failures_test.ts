import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import type { EvalResult } from "../../src/evals/eval_request.ts";
import { RetryLaterError } from "../../src/errors.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { exactMatch } from "../../src/evals/evaluators.ts";
import { SerializationError } from "../../src/mailbox/errors.ts";
import { Fixture } from "./_fixture.ts";

const noLuck = () => {
  throw new RangeError("no luck");
};

describe("a failed sample", () => {
  it("a failed sample has a failed result with the error of its agent and is acknowledged", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const agent = fixture.agent({ adapter: scriptedAdapter([new RangeError("no luck")]) });
    const loop = fixture.loop({ agent });
    await fixture.workOff(loop);
    const [result] = await fixture.takeResults();
    assertEquals(result?.error, { name: "RangeError", message: "no luck" });
    assertEquals(result?.score, { value: 0, passed: false, reason: "RangeError: no luck" });
    assertEquals([result?.output, loop.counts.acknowledged], [undefined, 1]);
  });

  it("a failed sample has a failed result when its agent cannot be created", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    await fixture.workOff(fixture.loop({ agent: noLuck }));
    assertEquals((await fixture.takeResults())[0]?.error?.name, "RangeError");
  });

  it("a failed sample has a failed result with output and usage when its evaluator throws", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    await fixture.workOff(fixture.loop({ evaluator: noLuck }));
    const [result] = await fixture.takeResults();
    assertEquals([result?.error?.name, result?.output], ["RangeError", "S1"]);
    assertEquals(result?.usage, { inputTokens: 1, outputTokens: 1 });
  });

  it("a failed sample has a failed result when its evaluator returns an invalid score", async () => {
    for (const score of [{ value: 2, passed: true }, { value: NaN, passed: true }, "good"]) {
      const fixture = new Fixture();
      await fixture.submit(1);
      await fixture.workOff(fixture.loop({ evaluator: () => score as never }));
      const [result] = await fixture.takeResults();
      assertEquals(result?.error?.message.slice(0, 14), "Invalid score:");
    }
  });

  it("a failed sample does not affect other samples", async () => {
    const fixture = new Fixture();
    await fixture.submit(5);
    await fixture.workOff(
      fixture.loop({ evaluator: (output) => output === "S3" ? noLuck() : true }),
    );
    const passed = (await fixture.takeResults()).map(({ score }) => score.passed);
    assertEquals(passed, [true, true, false, true, true]);
  });

  it("a failed sample is retried with a dead-letter policy and has a failed result after the last attempt", async () => {
    const fixture = new Fixture();
    await fixture.submit(2);
    const loop = fixture.loop({
      deadLetter: { maxDeliveries: 3 },
      evaluator: (output) => {
        const again = fixture.asked.filter((it) => it === "s2").length > 1;
        return output === "S2" && again || noLuck();
      },
    });
    await fixture.workOff(loop);
    const results = await fixture.takeResults();
    const told = results.map(({ sampleId, error }) => [sampleId, error?.message]);
    assertEquals(told.sort(), [["s1", "RangeError: no luck"], ["s2", undefined]]);
    assertEquals(fixture.asked.toSorted(), ["s1", "s1", "s1", "s2", "s2"]);
    assertEquals(loop.counts.deadLettered, 1);
  });

  it("a failed sample is dead-lettered after one attempt when the policy includes its error class", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const agent = fixture.agent({ adapter: scriptedAdapter([new RangeError("no luck")]) });
    const loop = fixture.loop({ agent, deadLetter: { maxDeliveries: 9, include: [RangeError] } });
    await fixture.workOff(loop);
    assertEquals([loop.counts.deadLettered, loop.counts.nacked], [1, 0]);
    assertEquals((await fixture.takeResults()).length, 1);
  });

  it("a failed sample gets no score after its failed result when dead-lettering fails", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    fixture.requests.loseConnection({ operations: ["deadLetter"], calls: 5 });
    const agent = fixture.agent({ adapter: scriptedAdapter([new RangeError("no luck"), "S1"]) });
    const loop = fixture.loop({ agent, deadLetter: { maxDeliveries: 9, include: [RangeError] } });
    await fixture.workOff(loop);
    const results = await fixture.takeResults();
    assertGreater(results.length, 0, "a failed result was sent");
    assertEquals(results.map(({ output }) => output).filter(Boolean), []);
    assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 0]);
  });

  it("a failed sample is dead-lettered when its request is invalid, with a failed result if its ids are readable", async () => {
    const fixture = new Fixture();
    const { requests, results: replyTo } = fixture;
    const known = { evaluationId: "e", sample: { id: "s1" }, experiment: { name: "x" } };
    await requests.send(known as never, { replyTo });
    await requests.send("nonsense" as never, { replyTo });
    await requests.send(null as never, { replyTo });
    const loop = fixture.loop();
    await fixture.workOff(loop);
    assertEquals(loop.counts.deadLettered, 3);
    const results = await fixture.takeResults();
    const told = results.map(({ sampleId, experiment, error }) => [sampleId, experiment, error]);
    const message = 'sample: expected an "input" in an object with keys [id]';
    assertEquals(told, [["s1", "x", { name: "Error", message }]]);
    assertEquals(fixture.logged.filter((it) => it.includes("onDeadLetter failed")), []);
  });
});

describe("an unsent result", () => {
  it("an unsent result is sent without scoring again, also by another loop, when its mailbox is back", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    let scored = 0;
    const options = {
      evaluator: (...args: Parameters<typeof exactMatch<string>>) => {
        scored++;
        return exactMatch(...args);
      },
    };
    fixture.results.loseConnection();
    const first = fixture.loop(options);
    const run = first.run();
    await fixture.clock.advance(5_000);
    await fixture.clock.until(first.shutdown());
    await run;
    assertGreater(first.counts.nacked, 0);
    assertEquals(await fixture.requests.approximateCount(), 1);
    fixture.results.restoreConnection();
    await fixture.workOff(fixture.loop(options));
    assertEquals((await fixture.takeResults()).map(({ score }) => score.passed), [true]);
    assertEquals([scored, fixture.asked], [1, ["s1"]]);
  });

  it("a sample without a reply address is dead-lettered before the agent runs, unless the loop has a results mailbox", async () => {
    const fixture = new Fixture();
    const [sample] = Fixture.samples(1);
    const request = { evaluationId: "e", sample: sample!, experiment: { name: "x" } };
    await fixture.requests.send(request, { id: "m1" });
    await fixture.workOff(fixture.loop());
    const [letter] = await fixture.requests.deadLetters.receive();
    assertEquals([letter?.body.reason, letter?.body.error], [
      "reply_unavailable",
      "Message m1 has no reply address. Send it with `replyTo`, or pass `results` to the EvalLoop",
    ]);
    assertEquals(fixture.asked, [], "the agent did not run");
    await fixture.requests.send(request);
    await fixture.workOff(fixture.loop({ results: fixture.results }));
    assertEquals((await fixture.takeResults()).length, 1);
  });

  it("an unsent result whose mailbox was closed during the evaluation is dead-lettered with its request", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const { close } = fixture.results;
    const evaluator = async () => {
      await close.call(fixture.results);
      return true;
    };
    const loop = fixture.loop({ evaluator, results: fixture.results });
    await fixture.workOff(loop);
    const [letter] = await fixture.requests.deadLetters.receive({ visibilityTimeoutMs: 0 });
    const { unsent } = letter?.body.checkpoint as {
      readonly unsent: { result: EvalResult<string> };
    };
    assertEquals([letter?.body.reason, unsent.result.output], ["reply_unavailable", "S1"]);
    assertEquals([loop.counts.acknowledged, fixture.asked], [0, ["s1"]]);
    const another = new InMemoryMailbox<EvalResult<string>>("others", { clock: fixture.clock });
    await redrive(fixture.requests, { clock: fixture.clock });
    await fixture.workOff(fixture.loop({ results: another }));
    const [result] = await another.receive();
    assertEquals([result?.body.score.passed, fixture.asked], [true, ["s1"]]);
  });

  for (const deadLetter of [undefined, { maxDeliveries: 1 }]) {
    const how = deadLetter === undefined ? "without" : "with";
    it(`a sample whose agent or evaluator asks for a later retry spends no attempt, ${how} a dead-letter policy`, async () => {
      const fixture = new Fixture();
      await fixture.submit(1);
      const busy = [new RetryLaterError("busy", { delayMs: 7_000 }), "S1"] as const;
      const agent = fixture.agent({ adapter: scriptedAdapter(busy) });
      let scored = 0;
      const evaluator = () => {
        if (++scored === 1) throw new RetryLaterError("busy", { delayMs: 3_000 });
        return true;
      };
      const start = fixture.clock.now();
      const options = deadLetter === undefined ? {} : { deadLetter };
      const loop = fixture.loop({ agent, evaluator, ...options });
      await fixture.workOff(loop);
      const [result] = await fixture.takeResults();
      assertEquals([loop.counts.nacked, loop.counts.deadLettered], [2, 0]);
      assertEquals([result?.score.passed, result!.completedAt - start >= 10_000], [true, true]);
    });
  }

  it("the steps of an agent and of an evaluator run once per sample", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const calls: string[] = [];
    const agent = fixture.agent({
      prepare: async (input, { step }) => {
        const content = await step("look up", () => (calls.push("look up"), input));
        return { prompt: { messages: [{ role: "user", content }] } };
      },
    });
    const loop = fixture.loop({
      agent,
      deadLetter: { maxDeliveries: 3 },
      evaluator: async (_output, _expected, { step }) => {
        const passed = await step("run the tests", () => (calls.push("run the tests"), true));
        return calls.push("scored") < 4 ? noLuck() : passed;
      },
    });
    await fixture.workOff(loop);
    assertEquals(calls, ["look up", "run the tests", "scored", "scored"]);
    assertEquals((await fixture.takeResults()).map(({ score }) => score.passed), [true]);
  });

  it("an unsent result is sent without its output when the output cannot be serialized", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const { send } = fixture.results;
    fixture.results.send = (result, options) => {
      if ("output" in result) throw new SerializationError("too strange");
      return send.call(fixture.results, result, options);
    };
    await fixture.workOff(fixture.loop());
    const [result] = await fixture.takeResults();
    assertEquals(result?.error, { name: "SerializationError", message: "too strange" });
    assertEquals([result?.score.passed, fixture.asked], [false, ["s1"]]);
  });
});
