import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapters/scripted.ts";
import { llmJudge } from "../../src/evals/llm_judge.ts";
import { contains } from "../../src/evals/builtin_evaluators.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { FakeRuntime, lifecycleCases } from "../../src/testing/mod.ts";
import { Lab } from "./_lab.ts";

describe("EvalLoop with a finalize that returns nothing", () => {
  it("scores the unchanged output", async () => {
    const lab = new Lab();
    const seen: string[] = [];
    await lab.submit(1);
    const agent = lab.agent({ finalize: (output) => void seen.push(output) });
    await lab.workOff(lab.loop({ agent, evaluator: contains }));
    const [result] = await lab.heard();
    assertEquals([result?.output, result?.error, result?.score.passed], ["S1", undefined, true]);
    assertEquals(seen, ["S1"]);
  });
});

describe("EvalLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const lab = new Lab();
        return { clock: lab.clock, runnable: lab.loop() };
      }));
  }

  it("extends MailboxLoop", () => {
    assert(new Lab().loop() instanceof MailboxLoop);
  });

  it("runs the agent on each sample, scores the output and sends the result", async () => {
    const lab = new Lab();
    lab.delayMs = 40;
    await lab.submit(2);
    const startedAt = lab.clock.now();
    const loop = lab.loop();
    await lab.workOff(loop);
    const usage = { inputTokens: 1, outputTokens: 1 };
    const common = { evaluationId: "e", experiment: "default", latencyMs: 40, usage };
    const reason = 'expected "something else", got "S2"';
    assertEquals(await lab.heard(), [
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
    assertEquals([lab.logged, lab.clock.pending], [[], 0]);
  });

  it("stops immediately while it waits for messages", async () => {
    const lab = new Lab();
    const loop = lab.loop();
    const run = loop.run();
    await lab.clock.advance(7_000);
    assertEquals([loop.running, await lab.clock.until(loop.shutdown())], [true, true]);
    await run;
    assertEquals([loop.running, lab.clock.monotonic(), lab.clock.pending], [false, 7_000, 0]);
  });

  it("finishes the sample in flight and sends its result on a stop", async () => {
    const lab = new Lab();
    lab.delayMs = 2_000;
    await lab.submit(1);
    const loop = lab.loop();
    const run = loop.run();
    await lab.clock.advance(100);
    assertEquals(await lab.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    await run;
    assertEquals((await lab.heard()).map(({ sampleId }) => sampleId), ["s1"]);
    assertEquals([lab.clock.monotonic(), await lab.requests.approximateCount()], [2_000, 0]);
  });

  it("releases the unstarted samples of a batch in order on a stop", async () => {
    const lab = new Lab();
    lab.delayMs = 1_000;
    await lab.submit(5);
    const loop = lab.loop({ prefetch: 4 });
    const run = loop.run();
    await lab.clock.advance(10);
    assertEquals(loop.counts.received, 5);
    const stopped = loop.shutdown();
    await lab.clock.settle();
    assertEquals(await lab.waiting(), ["s2", "s3", "s4", "s5"]);
    assertEquals(await lab.clock.until(stopped), true);
    await run;
    const left = await lab.requests.receive({ maxMessages: 10 });
    assertEquals(left.map(({ deliveryCount }) => deliveryCount), [1, 1, 1, 1]);
    assertEquals([lab.asked, loop.counts.released], [["s1"], 4]);
  });

  it("releases the sample without a result when a stop runs out of time", async () => {
    const lab = new Lab();
    lab.delayMs = 60_000;
    await lab.submit(1);
    const loop = lab.loop();
    const run = loop.run();
    await lab.clock.advance(100);
    assertEquals(await lab.clock.until(loop.shutdown({ timeoutMs: 1_000 })), true);
    await run;
    assertEquals([await lab.waiting(), await lab.heard()], [["s1"], []]);
    assertEquals(loop.counts.released, 1);
  });

  it("cancels a hanging evaluator when a stop runs out of time", async () => {
    const lab = new Lab();
    await lab.submit(1);
    const loop = lab.loop({ evaluator: () => new Promise<boolean>(() => {}) });
    const run = loop.run();
    await lab.clock.advance(100);
    assertEquals(await lab.clock.until(loop.shutdown({ timeoutMs: 1_000 })), true);
    await run;
    assertEquals([await lab.waiting(), await lab.heard()], [["s1"], []]);
  });

  it("shutdown resolves with false when the loop cannot end in time", async () => {
    const lab = new Lab();
    await lab.submit(1);
    let letGo = () => {};
    const cleanup = () => new Promise<void>((resolve) => letGo = resolve);
    const agent = lab.agent({ prepare: () => ({ prompt: { messages: [], cleanup } }) });
    const loop = lab.loop({ agent });
    const run = loop.run();
    await lab.clock.advance(100);
    assertEquals(await lab.clock.until(loop.shutdown({ timeoutMs: 1_000 })), false);
    assertEquals(loop.running, true);
    letGo();
    await run;
    assertEquals(loop.running, false);
  });

  it("stops at the end of an await using block and can run again", async () => {
    const lab = new Lab();
    const loop = lab.loop();
    for (const round of [1, 2]) {
      await lab.submit(round);
      let run: Promise<void>;
      {
        await using running = loop;
        run = running.run();
        await lab.clock.advance(10);
      }
      await run;
      assertEquals((await lab.heard()).length, round);
    }
  });

  it("runs in a group with an AgentLoop", async () => {
    const lab = new Lab();
    const [loop, agent] = [lab.loop(), lab.agent()];
    const runtime = new FakeRuntime();
    const group = new LoopGroup([agent, loop], { clock: lab.clock, runtime, log: lab.log });
    await lab.submit(3);
    const run = group.run({ installSignals: false });
    await lab.clock.advance(10);
    assertEquals(await lab.clock.until(group.shutdown({ timeoutMs: 5_000 })), true);
    assertEquals((await run).counts.acknowledged, 3);
    assertEquals([agent.running, loop.running], [false, false]);
  });

  it("creates one agent for each experiment", async () => {
    const lab = new Lab();
    const made: string[] = [];
    const agent = ({ name, variables }: { name: string; variables?: object }) => {
      made.push(name);
      return lab.agent({ finalize: (output) => `${output}${JSON.stringify(variables)}` });
    };
    for (const sample of Lab.samples(2)) {
      for (const name of ["a", "b"]) {
        const experiment = { name, variables: { name } };
        const { results: replyTo } = lab;
        await lab.requests.send({ evaluationId: "e", sample, experiment }, { replyTo });
      }
    }
    await lab.workOff(lab.loop({ agent }));
    assertEquals(made, ["a", "b"]);
    assertEquals((await lab.heard()).map(({ output }) => output), [
      'S1{"name":"a"}',
      'S1{"name":"b"}',
      'S2{"name":"a"}',
      'S2{"name":"b"}',
    ]);
  });

  it("acknowledges finished samples without evaluating them", async () => {
    const lab = new Lab();
    await lab.submit(3);
    await lab.workOff(lab.loop({ isFinished: (id) => id === "e/default/s2" }));
    assertEquals(lab.asked, ["s1", "s3"]);
    assertEquals((await lab.heard()).map(({ sampleId }) => sampleId), ["s1", "s3"]);
  });

  it("extends the lease of a sample that takes longer than its visibility timeout", async () => {
    const lab = new Lab();
    lab.delayMs = 10_000;
    await lab.submit(1);
    const [loop, other] = [lab.loop(), lab.loop()];
    const runs = [loop, other].map((it) => it.run({ visibilityTimeoutMs: 1_000 }));
    await lab.clock.advance(11_000);
    await lab.clock.until(Promise.all([loop.shutdown(), other.shutdown()]));
    await Promise.all(runs);
    assertEquals([lab.asked, (await lab.heard()).length], [["s1"], 1]);
  });

  it("reports each piece of an answer and of a score to the heartbeat and the lease", async () => {
    const lab = new Lab();
    const { clock } = lab;
    await lab.submit(1);
    const slow = (last: string) => {
      const pieces = [...Array.from({ length: 9 }, () => " "), last];
      return scriptedAdapter([pieces], { delayMs: 1_000, clock });
    };
    const loop = lab.loop({
      agent: lab.agent({ adapter: slow("S1") }),
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
    assertEquals((await lab.heard()).map(({ score }) => score.passed), [true]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("rejects invalid options", async () => {
    const lab = new Lab();
    assertThrows(() => lab.loop({ agent: {} as never }), TypeError, "Invalid agent");
    assertThrows(() => lab.loop({ evaluator: 1 as never }), TypeError, "Invalid evaluator");
    assertThrows(() => lab.loop({ results: {} as never }), TypeError, "Invalid results");
    assertThrows(() => lab.loop({ concurrency: 0 }), RangeError, "Invalid concurrency");
    await assertRejects(() => lab.loop().run({ maxIterations: -1 }), RangeError);
  });
});
