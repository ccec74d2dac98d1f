import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapters/scripted.ts";
import { exactMatch } from "../../src/evals/builtin_evaluators.ts";
import { SerializationError } from "../../src/mailbox/errors.ts";
import { Lab } from "./_lab.ts";

const noLuck = () => {
  throw new RangeError("no luck");
};

describe("a failed sample", () => {
  it("has a failed result with the error of its agent and is acknowledged", async () => {
    const lab = new Lab();
    await lab.submit(1);
    const agent = lab.agent({ adapter: scriptedAdapter([new RangeError("no luck")]) });
    const loop = lab.loop({ agent });
    await lab.workOff(loop);
    const [result] = await lab.heard();
    assertEquals(result?.error, { name: "RangeError", message: "no luck" });
    assertEquals(result?.score, { value: 0, passed: false, reason: "RangeError: no luck" });
    assertEquals([result?.output, loop.counts.acknowledged], [undefined, 1]);
  });

  it("has a failed result when its agent cannot be created", async () => {
    const lab = new Lab();
    await lab.submit(1);
    await lab.workOff(lab.loop({ agent: noLuck }));
    assertEquals((await lab.heard())[0]?.error?.name, "RangeError");
  });

  it("has a failed result with output and usage when its evaluator throws", async () => {
    const lab = new Lab();
    await lab.submit(1);
    await lab.workOff(lab.loop({ evaluator: noLuck }));
    const [result] = await lab.heard();
    assertEquals([result?.error?.name, result?.output], ["RangeError", "S1"]);
    assertEquals(result?.usage, { inputTokens: 1, outputTokens: 1 });
  });

  it("has a failed result when its evaluator returns an invalid score", async () => {
    for (const score of [{ value: 2, passed: true }, { value: NaN, passed: true }, "good"]) {
      const lab = new Lab();
      await lab.submit(1);
      await lab.workOff(lab.loop({ evaluator: () => score as never }));
      const [result] = await lab.heard();
      assertEquals(result?.error?.message.slice(0, 14), "Invalid score:");
    }
  });

  it("does not affect other samples", async () => {
    const lab = new Lab();
    await lab.submit(5);
    await lab.workOff(lab.loop({ evaluator: (output) => output === "S3" ? noLuck() : true }));
    const passed = (await lab.heard()).map(({ score }) => score.passed);
    assertEquals(passed, [true, true, false, true, true]);
  });

  it("is retried with a dead-letter policy and has a failed result after the last attempt", async () => {
    const lab = new Lab();
    await lab.submit(2);
    const loop = lab.loop({
      deadLetter: { maxDeliveries: 3 },
      evaluator: (output) => {
        const again = lab.asked.filter((it) => it === "s2").length > 1;
        return output === "S2" && again || noLuck();
      },
    });
    await lab.workOff(loop);
    const results = await lab.heard();
    const told = results.map(({ sampleId, error }) => [sampleId, error?.message]);
    assertEquals(told.sort(), [["s1", "RangeError: no luck"], ["s2", undefined]]);
    assertEquals(lab.asked.toSorted(), ["s1", "s1", "s1", "s2", "s2"]);
    assertEquals(loop.counts.deadLettered, 1);
  });

  it("is dead-lettered after one attempt when the policy includes its error class", async () => {
    const lab = new Lab();
    await lab.submit(1);
    const agent = lab.agent({ adapter: scriptedAdapter([new RangeError("no luck")]) });
    const loop = lab.loop({ agent, deadLetter: { maxDeliveries: 9, include: [RangeError] } });
    await lab.workOff(loop);
    assertEquals([loop.counts.deadLettered, loop.counts.nacked], [1, 0]);
    assertEquals((await lab.heard()).length, 1);
  });

  it("gets no score after its failed result when dead-lettering fails", async () => {
    const lab = new Lab();
    await lab.submit(1);
    lab.requests.loseConnection({ operations: ["deadLetter"], calls: 5 });
    const agent = lab.agent({ adapter: scriptedAdapter([new RangeError("no luck"), "S1"]) });
    const loop = lab.loop({ agent, deadLetter: { maxDeliveries: 9, include: [RangeError] } });
    await lab.workOff(loop);
    const results = await lab.heard();
    assertGreater(results.length, 0, "a failed result was sent");
    assertEquals(results.map(({ output }) => output).filter(Boolean), []);
    assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 0]);
  });

  it("is dead-lettered when its request is invalid, with a failed result if its ids are readable", async () => {
    const lab = new Lab();
    const { requests, results: replyTo } = lab;
    const known = { evaluationId: "e", sample: { id: "s1" }, experiment: { name: "x" } };
    await requests.send(known as never, { replyTo });
    await requests.send("nonsense" as never, { replyTo });
    await requests.send(null as never, { replyTo });
    const loop = lab.loop();
    await lab.workOff(loop);
    assertEquals(loop.counts.deadLettered, 3);
    const results = await lab.heard();
    const told = results.map(({ sampleId, experiment, error }) => [sampleId, experiment, error]);
    const message = 'sample: expected an "input" in an object with keys [id]';
    assertEquals(told, [["s1", "x", { name: "Error", message }]]);
    assertEquals(lab.logged.filter((it) => it.includes("onDeadLetter failed")), []);
  });
});

describe("an unsent result", () => {
  it("is sent without scoring again, also by another loop, when its mailbox is back", async () => {
    const lab = new Lab();
    await lab.submit(1);
    let scored = 0;
    const options = {
      evaluator: (...args: Parameters<typeof exactMatch<string>>) => {
        scored++;
        return exactMatch(...args);
      },
    };
    lab.results.loseConnection();
    const first = lab.loop(options);
    const run = first.run();
    await lab.clock.advance(5_000);
    await lab.clock.until(first.shutdown());
    await run;
    assertGreater(first.counts.nacked, 0);
    assertEquals(await lab.requests.approximateCount(), 1);
    lab.results.restoreConnection();
    await lab.workOff(lab.loop(options));
    assertEquals((await lab.heard()).map(({ score }) => score.passed), [true]);
    assertEquals([scored, lab.asked], [1, ["s1"]]);
  });

  it("is dropped with a warning without a reply address, unless the loop has a results mailbox", async () => {
    const lab = new Lab();
    const [sample] = Lab.samples(1);
    const request = { evaluationId: "e", sample: sample!, experiment: { name: "x" } };
    await lab.requests.send(request);
    await lab.workOff(lab.loop());
    assertEquals(lab.logged, ["sample e/x/s1 has no reply address: its result is dropped"]);
    await lab.requests.send(request);
    await lab.workOff(lab.loop({ results: lab.results }));
    assertEquals((await lab.heard()).length, 1);
  });

  it("is sent without its output when the output cannot be serialized", async () => {
    const lab = new Lab();
    await lab.submit(1);
    const { send } = lab.results;
    lab.results.send = (result, options) => {
      if ("output" in result) throw new SerializationError("too strange");
      return send.call(lab.results, result, options);
    };
    await lab.workOff(lab.loop());
    const [result] = await lab.heard();
    assertEquals(result?.error, { name: "SerializationError", message: "too strange" });
    assertEquals([result?.score.passed, lab.asked], [false, ["s1"]]);
  });
});
