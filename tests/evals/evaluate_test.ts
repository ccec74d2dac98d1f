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
import { Fixture } from "./_fixture.ts";

type Options = EvaluateOptions<string, string, string>;

const EXPERIMENTS = [{ name: "a" }, { name: "b" }];

/** Returns the options that all evaluations of a fixture share. */
function optionsOf(fixture: Fixture): Options {
  const { clock, log, requests, results } = fixture;
  return {
    id: "e",
    dataset: Fixture.samples(20),
    experiments: EXPERIMENTS,
    agent: ({ name }) =>
      fixture.agent({ finalize: (output) => name === "b" ? `${output}?` : output }),
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

async function run(fixture: Fixture, options: Partial<Options> = {}): Promise<Evaluation<string>> {
  return await fixture.clock.until(evaluate({ ...optionsOf(fixture), ...options }));
}

/** Returns the report of an uninterrupted evaluation. */
async function uninterrupted(): Promise<string> {
  return String((await run(new Fixture())).report.withoutTimings());
}

describe("evaluate", () => {
  it("evaluate runs every sample in every experiment once and reports", async () => {
    const fixture = new Fixture();
    const { report, complete, results, drained } = await run(fixture, { concurrency: 4 });
    assertEquals([complete, results.length, fixture.asked.length], [true, 40, 40]);
    assertEquals(report.experiments.map(({ passed }) => passed), [10, 0]);
    assertEquals(report.comparisons[0]?.worse.length, 10);
    assertEquals(drained?.outcome, "drained");
    const left = [
      await fixture.requests.approximateCount(),
      await fixture.results.approximateCount(),
    ];
    assertEquals([left, fixture.clock.pending, fixture.logged], [[0, 0], 0, []]);
  });

  it("evaluate needs only a dataset, an agent and an evaluator", async () => {
    const fixture = new Fixture();
    const { complete, report } = await fixture.clock.until(evaluate({
      id: "small",
      dataset: Fixture.samples(3),
      agent: fixture.agent(),
      evaluator: exactMatch<string>,
      progress: false,
      clock: fixture.clock,
      group: { runtime: new FakeRuntime() },
    }));
    assertEquals([complete, report.experiments.map(({ name }) => name)], [true, ["default"]]);
    ShutdownCoordinator.reset();
  });

  it("evaluate continues after a stop without repeating samples and reports the same", async () => {
    const expected = await uninterrupted();
    for (const stopAfterMs of [0, 5, 45, 85]) {
      const fixture = new Fixture();
      fixture.delayMs = 10;
      const journal = new MemoryJournal();
      const controller = new AbortController();
      const first = evaluate({
        ...optionsOf(fixture),
        journal,
        concurrency: 4,
        signal: controller.signal,
      });
      await fixture.clock.advance(stopAfterMs);
      controller.abort();
      const stopped = await fixture.clock.until(first);
      assertEquals(stopped.complete, false);
      assertLess(stopped.results.length, 40);
      assertEquals(
        stopped.results.length,
        fixture.asked.length,
        "samples in flight are finished and stored",
      );

      const second = await run(fixture, { journal, concurrency: 4 });
      assertEquals([second.complete, fixture.asked.length], [true, 40]);
      assertEquals(String(second.report.withoutTimings()), expected);
    }
  });

  it("evaluate continues from the journal alone when its mailboxes are lost", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 10;
    const journal = new MemoryJournal();
    const controller = new AbortController();
    const first = evaluate({ ...optionsOf(fixture), journal, signal: controller.signal });
    await fixture.clock.advance(55);
    controller.abort();
    const { results } = await fixture.clock.until(first);
    assertEquals(results.length, 6);

    const fresh = new Fixture();
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

  it("evaluate first receives waiting results, and results that a crash left in flight", async () => {
    for (const inFlight of [0, 7, 20]) {
      const fixture = new Fixture();
      const journal = new MemoryJournal();
      await fixture.submit(20);
      await fixture.workOff(fixture.loop());
      // A collector receives some results and crashes before it stores them.
      const crashed = { maxMessages: inFlight, visibilityTimeoutMs: 5_000 };
      if (inFlight > 0) await fixture.results.receive(crashed);
      const since = fixture.clock.monotonic();
      const { complete, drained } = await run(fixture, {
        journal,
        experiments: [{ name: "default" }],
      });
      assertEquals([complete, drained, fixture.asked.length], [true, undefined, 20]);
      assertEquals((await journal.load()).length, 20);
      assertEquals(fixture.clock.monotonic() - since, inFlight > 0 ? 5_000 : 0);
    }
  });

  it("evaluate does not repeat samples that are in the journal and are redelivered", async () => {
    const fixture = new Fixture();
    const journal = new MemoryJournal();
    const only = { experiments: [{ name: "default" }], journal, dataset: Fixture.samples(3) };
    await run(fixture, only);
    await fixture.submit(3); // like a process that crashed before it acknowledged
    const { complete } = await run(fixture, { ...only, dataset: Fixture.samples(4) });
    assertEquals([complete, fixture.asked], [true, ["s1", "s2", "s3", "s4"]]);
    assertEquals(await fixture.requests.approximateCount(), 0);
  });

  it("evaluate only reports when all results are in the journal", async () => {
    const fixture = new Fixture();
    const journal = new MemoryJournal();
    const first = await run(fixture, { journal });
    const second = await run(fixture, { journal });
    assertEquals([fixture.asked.length, second.complete, second.drained], [40, true, undefined]);
    assertEquals(String(second.report), String(first.report));
  });

  it("evaluate ignores results in the journal that are not part of its dataset", async () => {
    const fixture = new Fixture();
    const journal = new MemoryJournal();
    await run(fixture, { journal });
    const { report, complete } = await run(fixture, { journal, dataset: Fixture.samples(2) });
    assertEquals([complete, report.experiments[0]?.samples, fixture.asked.length], [true, 2, 40]);
    const others = new Dataset<string, string>([{ id: "other", input: "other" }]);
    const second = await run(fixture, { journal, dataset: others });
    assertEquals([second.complete, second.results.length, fixture.asked.length], [true, 2, 42]);
  });

  it("evaluate finishes and stores samples in flight on SIGTERM", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 10;
    const runtime = new FakeRuntime();
    const options = { ...optionsOf(fixture), installSignals: true, group: { runtime } };
    const evaluating = evaluate(options);
    await fixture.clock.advance(25);
    runtime.send("SIGTERM");
    const { complete, results, drained } = await fixture.clock.until(evaluating);
    assertEquals([complete, results.length, drained?.outcome], [false, 3, "drained"]);
    assertEquals(drained?.exitCode, 0);
    ShutdownCoordinator.reset();
    assertEquals(runtime.listening, 0);
  });

  it("evaluate leaves the work to other loops without an agent", async () => {
    const fixture = new Fixture();
    const { agent: _, evaluator: __, ...options } = optionsOf(fixture);
    const worker = fixture.loop({ evaluator: () => true });
    const working = worker.run();
    const { complete, report } = await fixture.clock.until(evaluate(options));
    assertEquals([complete, report.experiments.map(({ passed }) => passed)], [true, [20, 20]]);
    await fixture.clock.until(worker.shutdown());
    await working;
  });

  it("evaluate ends after timeoutMs or idleMs with the results so far", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 1_000;
    const { complete, results } = await run(fixture, { timeoutMs: 5_500 });
    // The sixth was in flight.
    assertEquals([complete, results.length], [false, 6]);
    const slow = new Fixture();
    slow.delayMs = 3_000;
    assertEquals(
      (await run(slow, { idleMs: 2_000, group: { runtime: new FakeRuntime() } })).results.length,
      1,
    );
  });

  it("evaluate continues after a lost connection without repeating samples", async () => {
    const fixture = new Fixture();
    fixture.delayMs = 100;
    const evaluating = evaluate({ ...optionsOf(fixture), concurrency: 2 });
    await fixture.clock.advance(450);
    fixture.requests.loseConnection();
    fixture.results.loseConnection();
    await fixture.clock.advance(3_000);
    fixture.requests.restoreConnection();
    fixture.results.restoreConnection();
    const { complete } = await fixture.clock.until(evaluating);
    assertEquals(complete, true);
    assertEquals(fixture.asked.length, 40);
  });

  it("evaluate waits while the request mailbox is full", async () => {
    const fixture = new Fixture();
    const { send } = fixture.requests;
    let most = 0;
    fixture.requests.send = async (body, options) => {
      const count = await fixture.requests.approximateCount();
      most = Math.max(most, count);
      if (count >= 5) {
        const { MailboxFullError } = await import("../../src/mailbox/errors.ts");
        throw new MailboxFullError("full");
      }
      return await send.call(fixture.requests, body, options);
    };
    assertEquals((await run(fixture)).complete, true);
    assertGreater(most, 4);
  });

  it("evaluate shows its progress", async () => {
    const fixture = new Fixture();
    const seen: string[] = [];
    const progress = {
      update: ({ finished, total }: { finished: number; total: number }) =>
        void seen.push(`${finished}/${total}`),
      end: () => void seen.push("end"),
    };
    await run(fixture, { progress, dataset: Fixture.samples(1) });
    assertEquals([seen[0], seen.at(-2), seen.at(-1)], ["0/2", "2/2", "end"]);
  });

  it("evaluate completes immediately with an empty dataset", async () => {
    const { complete, report } = await run(new Fixture(), { dataset: new Dataset([]) });
    assertEquals([complete, report.experiments[0]?.finished], [true, 0]);
  });

  it("evaluate rejects invalid options before anything starts", async () => {
    const fixture = new Fixture();
    let loaded = 0;
    const journal = {
      load: () => Promise.resolve(loaded++).then(() => []),
      append: () => Promise.resolve(),
    };
    const refused = async (more: Partial<Record<keyof Options, unknown>>, message: string) => {
      const options = { ...optionsOf(fixture), journal, ...more } as Options;
      await assertRejects(() => evaluate(options), Error, message);
    };
    await refused({ id: "" }, "Invalid evaluation id");
    await refused({ dataset: [] }, "Invalid dataset");
    await refused({ experiments: [] }, "Invalid experiments");
    await refused({ baseline: "c" }, 'expected one of "a", "b", got "c"');
    await refused({ agent: undefined }, "Invalid agent");
    await refused({ evaluator: undefined }, "Invalid evaluator");
    await refused({ results: fixture.requests }, "Invalid results");
    await refused({ concurrency: 0 }, "Invalid concurrency");
    await refused({ idleMs: -1 }, "Invalid idleMs");
    await refused({ timeoutMs: NaN }, "Invalid timeoutMs");
    await refused({ visibilityTimeoutMs: -1 }, "Invalid visibilityTimeoutMs");
    const noAgent = { agent: undefined, evaluator: undefined };
    await refused({ ...noAgent, results: undefined }, "other processes do the work");
    assertEquals([loaded, await fixture.requests.approximateCount()], [0, 0]);
  });
});
