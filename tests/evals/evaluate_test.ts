import { describe, it } from "node:test";
import { assertEquals, assertGreater, assertLess, assertRejects } from "@std/assert";
import {
  Dataset,
  evaluate,
  type EvaluateOptions,
  type Evaluation,
  exactMatch,
  MemoryJournal,
} from "../../src/evals/mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { Lab } from "./_lab.ts";

type Options = EvaluateOptions<string, string, string>;

const EXPERIMENTS = [{ name: "a" }, { name: "b" }];

/** Returns the options that all evaluations of a lab share. */
function optionsOf(lab: Lab): Options {
  const { clock, log, requests, results } = lab;
  return {
    id: "e",
    dataset: Lab.samples(20),
    experiments: EXPERIMENTS,
    agent: ({ name }) => lab.agent({ finalize: (output) => name === "b" ? `${output}?` : output }),
    evaluator: exactMatch<string>,
    requests,
    results,
    progress: false,
    installSignals: false,
    group: { runtime: new FakeRuntime() },
    clock,
    log,
  };
}

async function run(lab: Lab, options: Partial<Options> = {}): Promise<Evaluation<string>> {
  return await lab.clock.until(evaluate({ ...optionsOf(lab), ...options }));
}

/** Returns the report of an uninterrupted evaluation. */
async function uninterrupted(): Promise<string> {
  return String((await run(new Lab())).report.withoutTimings());
}

describe("evaluate", () => {
  it("evaluates every sample in every experiment once and reports", async () => {
    const lab = new Lab();
    const { report, complete, results, drained } = await run(lab, { concurrency: 4 });
    assertEquals([complete, results.length, lab.asked.length], [true, 40, 40]);
    assertEquals(report.experiments.map(({ passed }) => passed), [10, 0]);
    assertEquals(report.comparisons[0]?.worse.length, 10);
    assertEquals(drained?.outcome, "drained");
    const left = [await lab.requests.approximateCount(), await lab.results.approximateCount()];
    assertEquals([left, lab.clock.pending, lab.logged], [[0, 0], 0, []]);
  });

  it("needs only a dataset, an agent and an evaluator", async () => {
    const lab = new Lab();
    const { complete, report } = await lab.clock.until(evaluate({
      id: "small",
      dataset: Lab.samples(3),
      agent: lab.agent(),
      evaluator: exactMatch<string>,
      progress: false,
      clock: lab.clock,
      group: { runtime: new FakeRuntime() },
    }));
    assertEquals([complete, report.experiments.map(({ name }) => name)], [true, ["default"]]);
    ShutdownCoordinator.reset();
  });

  it("continues after a stop without repeating samples and reports the same", async () => {
    const expected = await uninterrupted();
    for (const stopAfterMs of [0, 5, 45, 85]) {
      const lab = new Lab();
      lab.delayMs = 10;
      const journal = new MemoryJournal();
      const controller = new AbortController();
      const first = evaluate({
        ...optionsOf(lab),
        journal,
        concurrency: 4,
        signal: controller.signal,
      });
      await lab.clock.advance(stopAfterMs);
      controller.abort();
      const stopped = await lab.clock.until(first);
      assertEquals(stopped.complete, false);
      assertLess(stopped.results.length, 40);
      assertEquals(
        stopped.results.length,
        lab.asked.length,
        "samples in flight are finished and stored",
      );

      const second = await run(lab, { journal, concurrency: 4 });
      assertEquals([second.complete, lab.asked.length], [true, 40]);
      assertEquals(String(second.report.withoutTimings()), expected);
    }
  });

  it("continues from the journal alone when its mailboxes are lost", async () => {
    const lab = new Lab();
    lab.delayMs = 10;
    const journal = new MemoryJournal();
    const controller = new AbortController();
    const first = evaluate({ ...optionsOf(lab), journal, signal: controller.signal });
    await lab.clock.advance(55);
    controller.abort();
    const { results } = await lab.clock.until(first);
    assertEquals(results.length, 6);

    const fresh = new Lab();
    let sent = 0;
    const { send } = fresh.requests;
    fresh.requests.send = (...request) => {
      sent++;
      return send.apply(fresh.requests, request);
    };
    const second = await run(fresh, { journal });
    assertEquals([second.complete, sent, fresh.asked.length], [true, 34, 34]);
    assertEquals(String(second.report.withoutTimings()), await uninterrupted());
  });

  it("first receives waiting results, and results that a crash left in flight", async () => {
    for (const inFlight of [0, 7, 20]) {
      const lab = new Lab();
      const journal = new MemoryJournal();
      await lab.submit(20);
      await lab.workOff(lab.loop());
      // A collector receives some results and crashes before it stores them.
      const crashed = { maxMessages: inFlight, visibilityTimeoutMs: 5_000 };
      if (inFlight > 0) await lab.results.receive(crashed);
      const since = lab.clock.monotonic();
      const { complete, drained } = await run(lab, { journal, experiments: [{ name: "default" }] });
      assertEquals([complete, drained, lab.asked.length], [true, undefined, 20]);
      assertEquals((await journal.load()).length, 20);
      assertEquals(lab.clock.monotonic() - since, inFlight > 0 ? 5_000 : 0);
    }
  });

  it("does not repeat samples that are in the journal and are redelivered", async () => {
    const lab = new Lab();
    const journal = new MemoryJournal();
    const only = { experiments: [{ name: "default" }], journal, dataset: Lab.samples(3) };
    await run(lab, only);
    await lab.submit(3); // like a process that crashed before it acknowledged
    const { complete } = await run(lab, { ...only, dataset: Lab.samples(4) });
    assertEquals([complete, lab.asked], [true, ["s1", "s2", "s3", "s4"]]);
    assertEquals(await lab.requests.approximateCount(), 0);
  });

  it("only reports when all results are in the journal", async () => {
    const lab = new Lab();
    const journal = new MemoryJournal();
    const first = await run(lab, { journal });
    const second = await run(lab, { journal });
    assertEquals([lab.asked.length, second.complete, second.drained], [40, true, undefined]);
    assertEquals(String(second.report), String(first.report));
  });

  it("ignores results in the journal that are not part of its dataset", async () => {
    const lab = new Lab();
    const journal = new MemoryJournal();
    await run(lab, { journal });
    const { report, complete } = await run(lab, { journal, dataset: Lab.samples(2) });
    assertEquals([complete, report.experiments[0]?.samples, lab.asked.length], [true, 2, 40]);
    const others = new Dataset<string, string>([{ id: "other", input: "other" }]);
    const second = await run(lab, { journal, dataset: others });
    assertEquals([second.complete, second.results.length, lab.asked.length], [true, 2, 42]);
  });

  it("finishes and stores samples in flight on SIGTERM", async () => {
    const lab = new Lab();
    lab.delayMs = 10;
    const runtime = new FakeRuntime();
    const options = { ...optionsOf(lab), installSignals: true, group: { runtime } };
    const evaluating = evaluate(options);
    await lab.clock.advance(25);
    runtime.send("SIGTERM");
    const { complete, results, drained } = await lab.clock.until(evaluating);
    assertEquals([complete, results.length, drained?.outcome], [false, 3, "drained"]);
    assertEquals(drained?.exitCode, 0);
    ShutdownCoordinator.reset();
    assertEquals(runtime.listening, 0);
  });

  it("leaves the work to other loops without an agent", async () => {
    const lab = new Lab();
    const { agent: _, evaluator: __, ...options } = optionsOf(lab);
    const worker = lab.loop({ evaluator: () => true });
    const working = worker.run();
    const { complete, report } = await lab.clock.until(evaluate(options));
    assertEquals([complete, report.experiments.map(({ passed }) => passed)], [true, [20, 20]]);
    await lab.clock.until(worker.shutdown());
    await working;
  });

  it("ends after timeoutMs or idleMs with the results so far", async () => {
    const lab = new Lab();
    lab.delayMs = 1_000;
    const { complete, results } = await run(lab, { timeoutMs: 5_500 });
    // The sixth was in flight.
    assertEquals([complete, results.length], [false, 6]);
    const slow = new Lab();
    slow.delayMs = 3_000;
    assertEquals(
      (await run(slow, { idleMs: 2_000, group: { runtime: new FakeRuntime() } })).results.length,
      1,
    );
  });

  it("continues after a lost connection without repeating samples", async () => {
    const lab = new Lab();
    lab.delayMs = 100;
    const evaluating = evaluate({ ...optionsOf(lab), concurrency: 2 });
    await lab.clock.advance(450);
    lab.requests.loseConnection();
    lab.results.loseConnection();
    await lab.clock.advance(3_000);
    lab.requests.restoreConnection();
    lab.results.restoreConnection();
    const { complete } = await lab.clock.until(evaluating);
    assertEquals(complete, true);
    assertEquals(lab.asked.length, 40);
  });

  it("waits while the request mailbox is full", async () => {
    const lab = new Lab();
    const { send } = lab.requests;
    let most = 0;
    lab.requests.send = async (body, options) => {
      const count = await lab.requests.approximateCount();
      most = Math.max(most, count);
      if (count >= 5) {
        const { MailboxFullError } = await import("../../src/mailbox/errors.ts");
        throw new MailboxFullError("full");
      }
      return await send.call(lab.requests, body, options);
    };
    assertEquals((await run(lab)).complete, true);
    assertGreater(most, 4);
  });

  it("shows its progress", async () => {
    const lab = new Lab();
    const seen: string[] = [];
    const progress = {
      update: ({ finished, total }: { finished: number; total: number }) =>
        void seen.push(`${finished}/${total}`),
      end: () => void seen.push("end"),
    };
    await run(lab, { progress, dataset: Lab.samples(1) });
    assertEquals([seen[0], seen.at(-2), seen.at(-1)], ["0/2", "2/2", "end"]);
  });

  it("completes immediately with an empty dataset", async () => {
    const { complete, report } = await run(new Lab(), { dataset: new Dataset([]) });
    assertEquals([complete, report.experiments[0]?.finished], [true, 0]);
  });

  it("rejects invalid options before anything starts", async () => {
    const lab = new Lab();
    let loaded = 0;
    const journal = {
      load: () => Promise.resolve(loaded++).then(() => []),
      append: () => Promise.resolve(),
    };
    const refused = async (more: Partial<Record<keyof Options, unknown>>, message: string) => {
      const options = { ...optionsOf(lab), journal, ...more } as Options;
      await assertRejects(() => evaluate(options), Error, message);
    };
    await refused({ id: "" }, "Invalid evaluation id");
    await refused({ dataset: [] }, "Invalid dataset");
    await refused({ experiments: [] }, "Invalid experiments");
    await refused({ baseline: "c" }, 'expected one of "a", "b", got "c"');
    await refused({ agent: undefined }, "Invalid agent");
    await refused({ evaluator: undefined }, "Invalid evaluator");
    await refused({ results: lab.requests }, "Invalid results");
    await refused({ concurrency: 0 }, "Invalid concurrency");
    await refused({ idleMs: -1 }, "Invalid idleMs");
    await refused({ timeoutMs: NaN }, "Invalid timeoutMs");
    await refused({ visibilityTimeoutMs: -1 }, "Invalid visibilityTimeoutMs");
    const noAgent = { agent: undefined, evaluator: undefined };
    await refused({ ...noAgent, results: undefined }, "other processes do the work");
    assertEquals([loaded, await lab.requests.approximateCount()], [0, 0]);
  });
});
