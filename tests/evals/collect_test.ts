import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import {
  collectResults,
  type EvalProgress,
  type EvalResult,
  type Journal,
  MemoryJournal,
  submitDataset,
  submitExperiments,
  trialId,
} from "../../src/evals/mod.ts";
import { Fixture } from "./_fixture.ts";

function result(sampleId: string, more: Partial<EvalResult<string>> = {}): EvalResult<string> {
  return {
    evaluationId: "e",
    experiment: "default",
    sampleId,
    score: { value: 1, passed: true },
    latencyMs: 1,
    usage: { inputTokens: 0, outputTokens: 0 },
    completedAt: 0,
    ...more,
  };
}

const ids = (results: readonly EvalResult[]) => results.map(({ sampleId }) => sampleId);

describe("submitDataset and submitExperiments", () => {
  it("submitDataset and submitExperiments send every sample in every experiment, in order and with unique ids", async () => {
    const fixture = new Fixture();
    const experiments = [{ name: "a", variables: { t: 1 } }, { name: "b" }];
    const dataset = Fixture.samples(20);
    const replyTo = fixture.results;
    const options = { evaluationId: "e", dataset, experiments, replyTo };
    assertEquals(await submitExperiments(fixture.requests, options), 40);
    const messages = await fixture.requests.receive({ maxMessages: 100 });
    const expected = [...dataset].flatMap((sample) =>
      experiments.map((experiment) => ({ evaluationId: "e", sample, experiment }))
    );
    assertEquals(messages.map(({ body }) => body), expected);
    assertEquals(messages.slice(0, 2).map(({ id }) => id), ["e/a/s1", "e/b/s1"]);
    assertEquals(messages.every((message) => message.replyTo === "results"), true);
  });

  it("submitDataset and submitExperiments do not duplicate requests that wait or are in flight", async () => {
    const fixture = new Fixture();
    await fixture.submit(3);
    const [first] = await fixture.requests.receive();
    await fixture.submit(4);
    assertEquals(await fixture.requests.approximateCount(), 4);
    await first?.acknowledge();
    assertEquals(await fixture.waiting(), ["s2", "s3", "s4"]);
  });

  it("submitDataset and submitExperiments skip finished trials and stop on their signal", async () => {
    const fixture = new Fixture();
    const controller = new AbortController();
    const dataset = Fixture.samples(100);
    const sent = await submitDataset(fixture.requests, {
      evaluationId: "e",
      dataset,
      signal: controller.signal,
      isFinished: (id) => {
        if (id === "e/default/s50") controller.abort();
        return id === "e/default/s2";
      },
    });
    assertEquals([sent, (await fixture.waiting()).slice(0, 2)], [49, ["s1", "s3"]]);
  });

  it("submitDataset and submitExperiments derive different ids from names with slashes and percent signs", () => {
    const names = [["a/b", "c", "d"], ["a", "b/c", "d"], ["a", "b", "c/d"], ["a", "b", "c%2Fd"]];
    const all = names.map(([evaluation, experiment, id]) => trialId(evaluation!, experiment!, id!));
    assertEquals(new Set(all).size, 4);
  });

  it("submitDataset and submitExperiments reject invalid options before anything is sent", async () => {
    const fixture = new Fixture();
    const dataset = Fixture.samples(1);
    const submit = (more: object) => () =>
      submitExperiments(fixture.requests, {
        evaluationId: "e",
        dataset,
        experiments: [{ name: "a" }],
        ...more,
      });
    await assertRejects(submit({ evaluationId: "" }), TypeError, "Invalid evaluation id");
    await assertRejects(submit({ experiments: [] }), TypeError, "at least one");
    await assertRejects(submit({ experiments: [{}] }), TypeError, "Invalid experiment");
    const twins = [{ name: "a" }, { name: "a" }];
    await assertRejects(submit({ experiments: twins }), TypeError, 'duplicate name "a"');
    assertEquals(await fixture.requests.approximateCount(), 0);
  });
});

describe("collectResults", () => {
  it("collectResults counts the first result of each trial and reports progress", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    const told: EvalProgress[] = [];
    let ends = 0;
    const progress = { update: (it: EvalProgress) => void told.push(it), end: () => void ends++ };
    const collecting = collectResults(fixture.results, {
      evaluationId: "e",
      count: 3,
      progress,
      clock,
      log,
    });
    await clock.settle();
    const bad = { score: { value: 0, passed: false }, error: { name: "Error", message: "x" } };
    await fixture.results.sendMany([result("s2"), result("s2", bad)]);
    await clock.settle();
    await fixture.results.sendMany([result("s1", bad), result("s3")]);
    const { results, complete } = await clock.until(collecting);
    assertEquals([ids(results), complete, ends], [["s2", "s1", "s3"], true, 1]);
    assertEquals(results[0]?.score.passed, true);
    assertEquals(told.at(-1), { evaluationId: "e", total: 3, finished: 3, passed: 2, errors: 1 });
    assertEquals([await fixture.results.approximateCount(), clock.pending], [0, 0]);
  });

  it("collectResults ends after idleMs without a result and after timeoutMs", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    const collect = (more: object) =>
      collectResults(fixture.results, { evaluationId: "e", count: 9, clock, log, ...more });
    let collecting = collect({ idleMs: 30_000 });
    await clock.advance(25_000);
    await fixture.results.send(result("s1"));
    await clock.advance(25_000);
    await fixture.results.send(result("s2"));
    const some = await clock.until(collecting);
    assertEquals([ids(some.results), some.complete], [["s1", "s2"], false]);
    assertEquals(clock.monotonic(), 80_000);

    collecting = collect({ timeoutMs: 30_000 });
    await clock.advance(25_000);
    await fixture.results.send(result("s3"));
    assertEquals(ids((await clock.until(collecting)).results), ["s3"]);
    assertEquals([clock.monotonic(), clock.pending], [110_000, 0]);
  });

  it("collectResults returns the results so far when its signal aborts or its mailbox closes", async () => {
    for (const end of ["abort", "close"] as const) {
      const fixture = new Fixture();
      const { clock, log } = fixture;
      const controller = new AbortController();
      const { signal } = controller;
      const options = { evaluationId: "e", count: 9, signal, clock, log };
      const collecting = collectResults(fixture.results, options);
      await fixture.results.send(result("s1"));
      await clock.advance(10);
      if (end === "abort") controller.abort();
      else await fixture.results.close();
      assertEquals(ids((await collecting).results), ["s1"]);
      assertEquals(clock.pending, 0);
    }
  });

  it("collectResults releases results that the journal cannot store", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    await fixture.results.send(result("s1"));
    const full: Journal = {
      load: () => Promise.resolve([]),
      append: () => Promise.reject(new Error("the disk is full")),
    };
    const options = { evaluationId: "e", count: 1, clock, log };
    const collecting = collectResults(fixture.results, { ...options, journal: full });
    await assertRejects(() => clock.until(collecting), Error, "the disk is full");
    assertEquals(ids(await fixture.takeResults()), ["s1"]);
  });

  it("collectResults loads the journal and stores new results in it", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    const journal = new MemoryJournal();
    await journal.append([result("s1")]);
    await fixture.results.sendMany([result("s1"), result("s2")]);
    const options = { evaluationId: "e", count: 2, journal, clock, log };
    assertEquals(ids((await collectResults(fixture.results, options)).results), ["s1", "s2"]);
    assertEquals(ids(await journal.load()), ["s1", "s2"]);
    const other = { ...options, evaluationId: "other" };
    await assertRejects(
      () => collectResults(fixture.results, other),
      Error,
      'belongs to the evaluation "e"',
    );
  });

  it("collectResults leaves results of other evaluations and dead-letters messages that are not results", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    await fixture.results.send(result("s1", { evaluationId: "other" }));
    await fixture.results.send("nonsense" as never);
    await fixture.results.send(result("s2"));
    const options = { evaluationId: "e", count: 1, clock, log };
    assertEquals(ids((await collectResults(fixture.results, options)).results), ["s2"]);
    await clock.advance(1_000);
    const left = await fixture.results.receive({ maxMessages: 9 });
    assertEquals(left.map(({ body, deliveryCount }) => [body.evaluationId, deliveryCount]), [[
      "other",
      1,
    ]]);
    assertEquals(await fixture.results.deadLetters.approximateCount(), 1);
  });

  it("collectResults continues when its mailbox is connected again", async () => {
    const fixture = new Fixture();
    const { clock, log } = fixture;
    await fixture.results.send(result("s1"));
    fixture.results.loseConnection();
    const collecting = collectResults(fixture.results, { evaluationId: "e", count: 1, clock, log });
    await clock.advance(10_000);
    fixture.results.restoreConnection();
    assertEquals(ids((await clock.until(collecting)).results), ["s1"]);
    assertEquals(fixture.logged[0], "receive failed, retrying");
  });

  it("collectResults rejects invalid options", async () => {
    const { results } = new Fixture();
    const collect = (more: object) => () =>
      collectResults(results, { evaluationId: "e", count: 1, ...more });
    await assertRejects(collect({ evaluationId: 7 }), TypeError, "Invalid evaluation id");
    await assertRejects(collect({ count: 1.5 }), RangeError, "Invalid count");
    await assertRejects(collect({ idleMs: -1 }), RangeError, "Invalid idleMs");
    await assertRejects(collect({ timeoutMs: NaN }), RangeError, "Invalid timeoutMs");
  });
});
