import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { evaluate } from "../../src/evals/mod.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { cleanUp, gate, uniqueName, url } from "../engines/redis/_redis.ts";
import { Child } from "../signals/_child.ts";
import { arithmetic, SAMPLES, TRIALS } from "./_arithmetic.ts";

/** The folder of an evaluation, the processes that run it, and what they have noted. */
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

  /** How often each trial was asked for or scored. */
  counts(what: string): Map<string, number> {
    const counts = new Map<string, number>();
    for (const line of this.#lines("notes")) {
      const [noted, trial = ""] = line.split(" ");
      if (noted === what) counts.set(trial, (counts.get(trial) ?? 0) + 1);
    }
    return counts;
  }

  /** The trials of the journal, in the order they were written. */
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

const trials = ["clumsy", "careful"].flatMap((experiment) =>
  Array.from({ length: SAMPLES }, (_, i) => `arithmetic/${experiment}/n${i}`)
).sort();

/** Those that give no output are not scored. */
const scorable = trials.filter((trial) => (Number(/\d+$/.exec(trial)) + 1) % 50 !== 0);

/** A random point, not too near to either end. */
const somewhere = () => 20 + Math.floor(Math.random() * TRIALS * 0.7);

async function end(child: Child): Promise<readonly [verdict: string, report: unknown]> {
  const { code, stdout, stderr } = await child.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  const [verdict = "", report = ""] = stdout.trim().split("\n").slice(-2);
  return [verdict, JSON.parse(report)];
}

/** The report of an evaluation that nobody interrupts, in memory. */
const undisturbed = (async () => {
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

async function stopAndGoOn(site: Site, url: string): Promise<void> {
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
  assertEquals(report, await undisturbed);
}

describe("an evaluation in a process", () => {
  it("that is stopped and started again on SQLite scores everything once, and reports the same", async () => {
    using site = new Site();
    await stopAndGoOn(site, site.sqlite);
  });

  it("that is killed and started again on SQLite loses nothing, and reports the same", async () => {
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
    assertLess(again, 2 * 8 + 1, "no more than what was in flight, or not yet acknowledged");
    assertEquals([asked.length, site.journal.sort()], [TRIALS, trials]);
    assertEquals(report, await undisturbed);
  });
});

describe("an evaluation in a process", gate, () => {
  it("that is stopped and started again on Redis scores everything once, and reports the same", async () => {
    using site = new Site();
    const names = ["requests", "results"].map((part) => `${site.name}.${part}`);
    after(async () => await Promise.all(names.map((name) => cleanUp(name))));
    await stopAndGoOn(site, url);
  });
});
