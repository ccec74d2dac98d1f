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
import { Lab } from "./_lab.ts";

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
  it("send every sample in every experiment, in order and with unique ids", async () => {
    const lab = new Lab();
    const experiments = [{ name: "a", variables: { t: 1 } }, { name: "b" }];
    const dataset = Lab.samples(20);
    const replyTo = lab.results;
    const options = { evaluationId: "e", dataset, experiments, replyTo };
    assertEquals(await submitExperiments(lab.requests, options), 40);
    const messages = await lab.requests.receive({ maxMessages: 100 });
    const expected = [...dataset].flatMap((sample) =>
      experiments.map((experiment) => ({ evaluationId: "e", sample, experiment }))
    );
    assertEquals(messages.map(({ body }) => body), expected);
    assertEquals(messages.slice(0, 2).map(({ id }) => id), ["e/a/s1", "e/b/s1"]);
    assertEquals(messages.every((message) => message.replyTo === "results"), true);
  });

  it("do not duplicate requests that wait or are in flight", async () => {
    const lab = new Lab();
    await lab.submit(3);
    const [first] = await lab.requests.receive();
    await lab.submit(4);
    assertEquals(await lab.requests.approximateCount(), 4);
    await first?.acknowledge();
    assertEquals(await lab.waiting(), ["s2", "s3", "s4"]);
  });

  it("skip finished trials and stop on their signal", async () => {
    const lab = new Lab();
    const controller = new AbortController();
    const dataset = Lab.samples(100);
    const sent = await submitDataset(lab.requests, {
      evaluationId: "e",
      dataset,
      signal: controller.signal,
      isFinished: (id) => {
        if (id === "e/default/s50") controller.abort();
        return id === "e/default/s2";
      },
    });
    assertEquals([sent, (await lab.waiting()).slice(0, 2)], [49, ["s1", "s3"]]);
  });

  it("derive different ids from names with slashes and percent signs", () => {
    const names = [["a/b", "c", "d"], ["a", "b/c", "d"], ["a", "b", "c/d"], ["a", "b", "c%2Fd"]];
    const all = names.map(([evaluation, experiment, id]) => trialId(evaluation!, experiment!, id!));
    assertEquals(new Set(all).size, 4);
  });

  it("reject invalid options before anything is sent", async () => {
    const lab = new Lab();
    const dataset = Lab.samples(1);
    const submit = (more: object) => () =>
      submitExperiments(lab.requests, {
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
    assertEquals(await lab.requests.approximateCount(), 0);
  });
});

describe("collectResults", () => {
  it("counts the first result of each trial and reports progress", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    const told: EvalProgress[] = [];
    let ends = 0;
    const progress = { update: (it: EvalProgress) => void told.push(it), end: () => void ends++ };
    const collecting = collectResults(lab.results, {
      evaluationId: "e",
      count: 3,
      progress,
      clock,
      log,
    });
    await clock.settle();
    const bad = { score: { value: 0, passed: false }, error: { name: "Error", message: "x" } };
    await lab.results.sendMany([result("s2"), result("s2", bad)]);
    await clock.settle();
    await lab.results.sendMany([result("s1", bad), result("s3")]);
    const { results, complete } = await clock.until(collecting);
    assertEquals([ids(results), complete, ends], [["s2", "s1", "s3"], true, 1]);
    assertEquals(results[0]?.score.passed, true);
    assertEquals(told.at(-1), { evaluationId: "e", total: 3, finished: 3, passed: 2, errors: 1 });
    assertEquals([await lab.results.approximateCount(), clock.pending], [0, 0]);
  });

  it("ends after idleMs without a result and after timeoutMs", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    const collect = (more: object) =>
      collectResults(lab.results, { evaluationId: "e", count: 9, clock, log, ...more });
    let collecting = collect({ idleMs: 30_000 });
    await clock.advance(25_000);
    await lab.results.send(result("s1"));
    await clock.advance(25_000);
    await lab.results.send(result("s2"));
    const some = await clock.until(collecting);
    assertEquals([ids(some.results), some.complete], [["s1", "s2"], false]);
    assertEquals(clock.monotonic(), 80_000);

    collecting = collect({ timeoutMs: 30_000 });
    await clock.advance(25_000);
    await lab.results.send(result("s3"));
    assertEquals(ids((await clock.until(collecting)).results), ["s3"]);
    assertEquals([clock.monotonic(), clock.pending], [110_000, 0]);
  });

  it("returns the results so far when its signal aborts or its mailbox closes", async () => {
    for (const end of ["abort", "close"] as const) {
      const lab = new Lab();
      const { clock, log } = lab;
      const controller = new AbortController();
      const { signal } = controller;
      const options = { evaluationId: "e", count: 9, signal, clock, log };
      const collecting = collectResults(lab.results, options);
      await lab.results.send(result("s1"));
      await clock.advance(10);
      if (end === "abort") controller.abort();
      else await lab.results.close();
      assertEquals(ids((await collecting).results), ["s1"]);
      assertEquals(clock.pending, 0);
    }
  });

  it("releases results that the journal cannot store", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    await lab.results.send(result("s1"));
    const full: Journal = {
      load: () => Promise.resolve([]),
      append: () => Promise.reject(new Error("the disk is full")),
    };
    const options = { evaluationId: "e", count: 1, clock, log };
    const collecting = collectResults(lab.results, { ...options, journal: full });
    await assertRejects(() => clock.until(collecting), Error, "the disk is full");
    assertEquals(ids(await lab.heard()), ["s1"]);
  });

  it("loads the journal and stores new results in it", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    const journal = new MemoryJournal();
    await journal.append([result("s1")]);
    await lab.results.sendMany([result("s1"), result("s2")]);
    const options = { evaluationId: "e", count: 2, journal, clock, log };
    assertEquals(ids((await collectResults(lab.results, options)).results), ["s1", "s2"]);
    assertEquals(ids(await journal.load()), ["s1", "s2"]);
    const other = { ...options, evaluationId: "other" };
    await assertRejects(
      () => collectResults(lab.results, other),
      Error,
      'belongs to the evaluation "e"',
    );
  });

  it("leaves results of other evaluations and dead-letters messages that are not results", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    await lab.results.send(result("s1", { evaluationId: "other" }));
    await lab.results.send("nonsense" as never);
    await lab.results.send(result("s2"));
    const options = { evaluationId: "e", count: 1, clock, log };
    assertEquals(ids((await collectResults(lab.results, options)).results), ["s2"]);
    await clock.advance(1_000);
    const left = await lab.results.receive({ maxMessages: 9 });
    assertEquals(left.map(({ body, deliveryCount }) => [body.evaluationId, deliveryCount]), [[
      "other",
      1,
    ]]);
    assertEquals(await lab.results.deadLetters.approximateCount(), 1);
  });

  it("continues when its mailbox is connected again", async () => {
    const lab = new Lab();
    const { clock, log } = lab;
    await lab.results.send(result("s1"));
    lab.results.loseConnection();
    const collecting = collectResults(lab.results, { evaluationId: "e", count: 1, clock, log });
    await clock.advance(10_000);
    lab.results.restoreConnection();
    assertEquals(ids((await clock.until(collecting)).results), ["s1"]);
    assertEquals(lab.logged[0], "receive failed, retrying");
  });

  it("rejects invalid options", async () => {
    const { results } = new Lab();
    const collect = (more: object) => () =>
      collectResults(results, { evaluationId: "e", count: 1, ...more });
    await assertRejects(collect({ evaluationId: 7 }), TypeError, "Invalid evaluation id");
    await assertRejects(collect({ count: 1.5 }), RangeError, "Invalid count");
    await assertRejects(collect({ idleMs: -1 }), RangeError, "Invalid idleMs");
    await assertRejects(collect({ timeoutMs: NaN }), RangeError, "Invalid timeoutMs");
  });
});
