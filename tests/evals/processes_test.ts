import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { evaluate } from "../../src/evals/mod.ts";
import { seededRandom } from "../../src/random.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { seed } from "../_seed.ts";
import { cleanUp, gate, uniqueName, url } from "../engines/redis/_redis.ts";
import { Child } from "../signals/_child.ts";
import { arithmetic, SAMPLES, TRIALS } from "./_arithmetic.ts";

/** The folder of an evaluation, the processes that run it, and their records. */
class Site implements Disposable {
  readonly folder: string = mkdtempSync(join(tmpdir(), "lastcall-evals-"));
  readonly name: string = uniqueName();

  get sqlite(): string {
    return `sqlite:${join(this.folder, "jobs.db")}`;
  }

  start(url: string, reach: number, visibilityMs = 60_000): Child {
    const args = [this.folder, url, this.name, String(reach), String(visibilityMs)];
    return Child.start("../../evals/fixtures/evaluation", { args });
  }

  /** Returns how often each trial was sent to the model or scored. */
  counts(what: string): Map<string, number> {
    const counts = new Map<string, number>();
    for (const line of this.#lines("notes")) {
      const [noted, trial = ""] = line.split(" ");
      if (noted === what) counts.set(trial, (counts.get(trial) ?? 0) + 1);
    }
    return counts;
  }

  /** The trials in the journal, in order. */
  get journal(): string[] {
    return this.#lines("journal.jsonl").map((line) => {
      const { experiment, sampleId } = JSON.parse(line);
      return `arithmetic/${experiment}/${sampleId}`;
    });
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, maxRetries: 3 });
  }

  #lines(file: string): string[] {
    return readFileSync(join(this.folder, file), "utf8").split("\n").slice(0, -1);
  }
}

const trials = ["inexact", "careful"].flatMap((experiment) =>
  Array.from({ length: SAMPLES }, (_, i) => `arithmetic/${experiment}/n${i}`)
).sort();

/** Trials without an output are not scored. */
const scorable = trials.filter((trial) => (Number(/\d+$/.exec(trial)) + 1) % 50 !== 0);

const random = seededRandom(seed);
/** Returns a random number of results, not too close to either end. */
const somewhere = () => 20 + Math.floor(random.number() * TRIALS * 0.7);

async function end(child: Child): Promise<readonly [state: string, report: unknown]> {
  const { code, stdout, stderr } = await child.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  const [state = "", report = ""] = stdout.trim().split("\n").slice(-2);
  return [state, JSON.parse(report)];
}

/** The report of an uninterrupted evaluation in memory. */
const uninterrupted = (async () => {
  const group = { runtime: detectRuntime() };
  const options = {
    ...arithmetic(() => {}),
    group,
    installSignals: false,
    progress: false as const,
  };
  const { report } = await evaluate(options);
  return JSON.parse(JSON.stringify(report.withoutTimings()));
})();

async function stopAndContinue(site: Site, url: string): Promise<void> {
  const point = somewhere();
  await using first = site.start(url, point);
  await first.line("reached");
  first.kill("SIGTERM");
  const [stopped] = await end(first);
  assertEquals(stopped, "stopped", `at ${point}`);
  const finished = site.journal.length;
  assertGreater(finished, point - 1);
  assertLess(finished, TRIALS, "it was stopped in the middle");

  await using second = site.start(url, 0);
  const [complete, report] = await end(second);
  assertEquals(complete, "complete", `stopped at ${point}`);
  assertEquals([...site.counts("asked")].sort(), trials.map((trial) => [trial, 1]));
  assertEquals([...site.counts("scored")].sort(), scorable.map((trial) => [trial, 1]));
  assertEquals(site.journal.sort(), trials);
  assertEquals(report, await uninterrupted);
}

describe(`an evaluation in its own process (seed ${seed})`, () => {
  it("an evaluation in its own process scores every sample once on SQLite when it is stopped and started again", async () => {
    using site = new Site();
    await stopAndContinue(site, site.sqlite);
  });

  it("an evaluation in its own process loses no sample on SQLite when it is killed and started again", async () => {
    using site = new Site();
    const point = somewhere();
    await using first = site.start(site.sqlite, point, 1_000);
    await first.line("reached");
    first.kill("SIGKILL");
    await first.exit();
    await using second = site.start(site.sqlite, 0, 1_000);
    const [complete, report] = await end(second);
    assertEquals(complete, "complete", `killed at ${point}`);
    const asked = [...site.counts("asked").values()];
    const again = asked.reduce((sum, count) => sum + count, 0) - TRIALS;
    assertLess(again, 2 * 8 + 1, "only samples in flight or not yet acknowledged are repeated");
    assertEquals([asked.length, site.journal.sort()], [TRIALS, trials]);
    assertEquals(report, await uninterrupted);
  });
});

describe(`an evaluation in its own process, on Redis (seed ${seed})`, gate, () => {
  it("an evaluation in its own process scores every sample once on Redis when it is stopped and started again", async () => {
    using site = new Site();
    const names = ["requests", "results"].map((part) => `${site.name}.${part}`);
    after(async () => await Promise.all(names.map((name) => cleanUp(name))));
    await stopAndContinue(site, url);
  });
});
