import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { llmJudge } from "../../src/evals/llm_judge.ts";
import { contains } from "../../src/evals/evaluators.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { FakeRuntime, lifecycleCases } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

describe("EvalLoop with a finalize that returns nothing", () => {
  it("EvalLoop with a finalize that returns nothing scores the unchanged output", async () => {
    const fixture = new Fixture();
    const seen: string[] = [];
    await fixture.submit(1);
    const agent = fixture.agent({ finalize: (output) => void seen.push(output) });
    await fixture.workOff(fixture.loop({ agent, evaluator: contains }));
    const [result] = await fixture.takeResults();
    assertEquals([result?.output, result?.error, result?.score.passed], ["S1", undefined, true]);
    assertEquals(seen, ["S1"]);
  });
});

describe("EvalLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const fixture = new Fixture();
        return { clock: fixture.clock, runnable: fixture.loop() };
      }));
  }

  it("EvalLoop extends MailboxLoop", () => {
    assert(new Fixture().loop() instanceof MailboxLoop);
  });

  it("EvalLoop runs the agent on each sample, scores the output and sends the result", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 40;
    await fixture.submit(2);
    const startedAt = fixture.clock.now();
    const loop = fixture.loop();
    await fixture.workOff(loop);
    const usage = { inputTokens: 1, outputTokens: 1 };
    const common = { evaluationId: "e", experiment: "default", latencyMs: 40, usage };
    const reason = 'expected "something else", got "S2"';
    assertEquals(await fixture.takeResults(), [
      {
        ...common,
        sampleId: "s1",
        score: { value: 1, passed: true },
        output: "S1",
        completedAt: startedAt + 40,
      },
      {
        ...common,
        sampleId: "s2",
        score: { value: 0, passed: false, reason },
        output: "S2",
        completedAt: startedAt + 80,
      },
    ]);
    assertEquals([loop.counts.received, loop.counts.acknowledged], [2, 2]);
    assertEquals([fixture.logged, fixture.clock.pending], [[], 0]);
  });

  it("EvalLoop stops immediately while it waits for messages", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop();
    const run = loop.run();
    await fixture.clock.advance(7_000);
    assertEquals([loop.running, await fixture.clock.until(loop.shutdown())], [true, true]);
    await run;
    assertEquals([loop.running, fixture.clock.monotonic(), fixture.clock.pending], [
      false,
      7_000,
      0,
    ]);
  });

  it("EvalLoop finishes the sample in flight and sends its result on a stop", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 2_000;
    await fixture.submit(1);
    const loop = fixture.loop();
    const run = loop.run();
    await fixture.clock.advance(100);
    assertEquals(await fixture.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    await run;
    assertEquals((await fixture.takeResults()).map(({ sampleId }) => sampleId), ["s1"]);
    assertEquals([fixture.clock.monotonic(), await fixture.requests.approximateCount()], [
      2_000,
      0,
    ]);
  });

  it("EvalLoop releases the unstarted samples of a batch in order on a stop", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 1_000;
    await fixture.submit(5);
    const loop = fixture.loop({ prefetch: 4 });
    const run = loop.run();
    await fixture.clock.advance(10);
    assertEquals(loop.counts.received, 5);
    const stopped = loop.shutdown();
    await fixture.clock.settle();
    assertEquals(await fixture.waiting(), ["s2", "s3", "s4", "s5"]);
    assertEquals(await fixture.clock.until(stopped), true);
    await run;
    const left = await fixture.requests.receive({ maxMessages: 10 });
    assertEquals(left.map(({ deliveryCount }) => deliveryCount), [1, 1, 1, 1]);
    assertEquals([fixture.asked, loop.counts.released], [["s1"], 4]);
  });

  it("EvalLoop releases the sample without a result when a stop runs out of time", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 60_000;
    await fixture.submit(1);
    const loop = fixture.loop();
    const run = loop.run();
    await fixture.clock.advance(100);
    assertEquals(await fixture.clock.until(loop.shutdown({ timeoutMs: 1_000 })), true);
    await run;
    assertEquals([await fixture.waiting(), await fixture.takeResults()], [["s1"], []]);
    assertEquals(loop.counts.released, 1);
  });

  it("EvalLoop cancels a hanging evaluator when a stop runs out of time", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    const loop = fixture.loop({ evaluator: () => new Promise<boolean>(() => {}) });
    const run = loop.run();
    await fixture.clock.advance(100);
    assertEquals(await fixture.clock.until(loop.shutdown({ timeoutMs: 1_000 })), true);
    await run;
    assertEquals([await fixture.waiting(), await fixture.takeResults()], [["s1"], []]);
  });

  it("EvalLoop.shutdown resolves with false when the loop cannot end in time", async () => {
    const fixture = new Fixture();
    await fixture.submit(1);
    let letGo = () => {};
    const cleanup = () => new Promise<void>((resolve) => letGo = resolve);
    const agent = fixture.agent({ prepare: () => ({ prompt: { messages: [], cleanup } }) });
    const loop = fixture.loop({ agent });
    const run = loop.run();
    await fixture.clock.advance(100);
    assertEquals(await fixture.clock.until(loop.shutdown({ timeoutMs: 1_000 })), false);
    assertEquals(loop.running, true);
    letGo();
    await run;
    assertEquals(loop.running, false);
  });

  it("EvalLoop stops at the end of an await using block and can run again", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop();
    for (const round of [1, 2]) {
      await fixture.submit(round);
      let run: Promise<void>;
      {
        await using running = loop;
        run = running.run();
        await fixture.clock.advance(10);
      }
      await run;
      assertEquals((await fixture.takeResults()).length, round);
    }
  });

  it("EvalLoop runs in a group with an AgentLoop", async () => {
    const fixture = new Fixture();
    const [loop, agent] = [fixture.loop(), fixture.agent()];
    const runtime = new FakeRuntime();
    const group = new LoopGroup([agent, loop], { clock: fixture.clock, runtime, log: fixture.log });
    await fixture.submit(3);
    const run = group.run({ installSignals: false });
    await fixture.clock.advance(10);
    assertEquals(await fixture.clock.until(group.shutdown({ timeoutMs: 5_000 })), true);
    assertEquals((await run).counts.acknowledged, 3);
    assertEquals([agent.running, loop.running], [false, false]);
  });

  it("EvalLoop creates one agent for each experiment", async () => {
    const fixture = new Fixture();
    const made: string[] = [];
    const agent = ({ name, variables }: { name: string; variables?: object }) => {
      made.push(name);
      return fixture.agent({ finalize: (output) => `${output}${JSON.stringify(variables)}` });
    };
    for (const sample of Fixture.samples(2)) {
      for (const name of ["a", "b"]) {
        const experiment = { name, variables: { name } };
        const { results: replyTo } = fixture;
        await fixture.requests.send({ evaluationId: "e", sample, experiment }, { replyTo });
      }
    }
    await fixture.workOff(fixture.loop({ agent }));
    assertEquals(made, ["a", "b"]);
    assertEquals((await fixture.takeResults()).map(({ output }) => output), [
      'S1{"name":"a"}',
      'S1{"name":"b"}',
      'S2{"name":"a"}',
      'S2{"name":"b"}',
    ]);
  });

  it("EvalLoop acknowledges finished samples without evaluating them", async () => {
    const fixture = new Fixture();
    await fixture.submit(3);
    await fixture.workOff(fixture.loop({ isFinished: (id) => id === "e/default/s2" }));
    assertEquals(fixture.asked, ["s1", "s3"]);
    assertEquals((await fixture.takeResults()).map(({ sampleId }) => sampleId), ["s1", "s3"]);
  });

  it("EvalLoop extends the lease of a sample that takes longer than its visibility timeout", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 10_000;
    await fixture.submit(1);
    const [loop, other] = [fixture.loop(), fixture.loop()];
    const runs = [loop, other].map((it) => it.run({ visibilityTimeoutMs: 1_000 }));
    await fixture.clock.advance(11_000);
    await fixture.clock.until(Promise.all([loop.shutdown(), other.shutdown()]));
    await Promise.all(runs);
    assertEquals([fixture.asked, (await fixture.takeResults()).length], [["s1"], 1]);
  });

  it("EvalLoop reports each piece of an answer and of a score to the heartbeat and the lease", async () => {
    const fixture = new Fixture();
    const { clock } = fixture;
    await fixture.submit(1);
    const slow = (last: string) => {
      const pieces = [...Array.from({ length: 9 }, () => " "), last];
      return scriptedAdapter([pieces], { delayMs: 1_000, clock });
    };
    const loop = fixture.loop({
      agent: fixture.agent({ adapter: slow("S1") }),
      evaluator: llmJudge({ adapter: slow('{"score": 1}'), criteria: "short" }),
      lease: { beatWithinMs: 1_500 },
    });
    const run = loop.run({ visibilityTimeoutMs: 2_000 });
    let oldest = 0;
    for (let second = 0; second < 19; second++) {
      await clock.advance(1_000);
      oldest = Math.max(oldest, loop.heartbeat.ageMs);
    }
    assertEquals([oldest < 1_000, loop.counts.leftToExpire], [true, 1]);
    await clock.until(loop.shutdown());
    await run;
    assertEquals((await fixture.takeResults()).map(({ score }) => score.passed), [true]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("EvalLoop rejects invalid options", async () => {
    const fixture = new Fixture();
    assertThrows(() => fixture.loop({ agent: {} as never }), TypeError, "Invalid agent");
    assertThrows(() => fixture.loop({ evaluator: 1 as never }), TypeError, "Invalid evaluator");
    assertThrows(() => fixture.loop({ results: {} as never }), TypeError, "Invalid results");
    assertThrows(() => fixture.loop({ concurrency: 0 }), RangeError, "Invalid concurrency");
    await assertRejects(() => fixture.loop().run({ maxIterations: -1 }), RangeError);
  });
});
