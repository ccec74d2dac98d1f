// npm test: all checks, and all tests on all three runtimes.
//
//   npm test                         everything
//   npm test -- --only node,bun      some steps
//   npm test -- loop_group mailbox   the test files whose path contains one of these

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import {
  CONFORMANCE_FILE,
  conformanceTable,
  missingEngines,
  readRecords,
  REQUIRED_ENGINES,
} from "./conformance.ts";
import { run } from "./process.ts";
import { type Counts, describe, none, parseCounts, sum } from "./test_counts.ts";
import { selectSteps, type Step, stepNames } from "./test_steps.ts";

interface Outcome {
  readonly name: string;
  readonly ok: boolean;
  readonly note: string;
  readonly counts: Counts;
  readonly seconds: string;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string", multiple: true, default: [] } },
});
const only = values.only.flatMap((names) => names.split(","));
const unknown = only.filter((name) => !stepNames.includes(name));
if (unknown.length > 0) {
  fail(`Unknown step ${unknown.join(", ")}: expected one of ${stepNames.join(", ")}`);
}
const steps = selectSteps(only, positionals);
if (steps.length === 0) fail(`No test file matches ${positionals.join(", ")}`);

const folder = mkdtempSync(join(tmpdir(), "lastcall-test-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const conformanceFile = join(folder, "conformance.jsonl");
writeFileSync(conformanceFile, "");
const commonEnv = {
  [CONFORMANCE_FILE]: conformanceFile,
  // Node starts a process per test file. Without the cache each would compile all sources.
  NODE_COMPILE_CACHE: join(folder, "compiled"),
};

const outcomes: Outcome[] = [];
for (let first = 0; first < steps.length;) {
  let next = first + 1;
  while (steps[next]?.beside) next++;
  const together = steps.slice(first, next).map(async (step) => {
    const outcome = await runStep(step);
    console.log(row(outcome));
    return outcome;
  });
  outcomes.push(...await Promise.all(together));
  first = next;
}

const runtimes = steps.flatMap(({ name, runner }) => runner === name ? [runner] : []);
if (positionals.length === 0 && runtimes.length > 0) {
  const records = readRecords(conformanceFile);
  console.log(`\n${conformanceTable(records, runtimes)}`);
  const required = (process.env[REQUIRED_ENGINES] ?? "").split(",").filter(Boolean);
  const missing = missingEngines(records, runtimes, required);
  if (missing.length > 0) outcomes.push(failed("engines", `skipped: ${missing.join(", ")}`));
}
console.log(`\n${outcomes.map(row).join("\n")}\n`);
console.log(describe(sum(outcomes.map(({ counts }) => counts))));
process.exitCode = outcomes.every(({ ok }) => ok) ? 0 : 1;

async function runStep(step: Step): Promise<Outcome> {
  const { name, program, args, paths, timeoutMs, runner, forbidden, lowPriority = false } = step;
  if (paths?.length === 0) return failed(name, "has no test file");
  const options = { timeoutMs, env: commonEnv, lowPriority };
  const results = await Promise.all(
    shares(step).map((share) => run(program, [...args, ...share], options)),
  );
  const seconds = `${(Math.max(...results.map(({ ms }) => ms)) / 1000).toFixed(1)} s`;
  const parts = runner ? results.map(({ output }) => parseCounts(runner, output)) : [none];
  const counts = sum(parts);
  const empty = runner !== undefined && parts.some((it) => it.passed + it.failed === 0);
  const hasForbidden = forbidden !== undefined &&
    results.some(({ output }) => output.includes(forbidden));
  const note = hasForbidden ? forbidden : empty ? "ran no test" : runner ? describe(counts) : "";
  const code = results.find((it) => it.code !== 0)?.code ?? 0;
  const ok = code === 0 && counts.failed === 0 && !empty && !hasForbidden;
  if (ok) return { name, ok, note, counts, seconds };
  for (const { output } of results) console.log(`\n── ${name} ──\n${output.trimEnd()}\n`);
  return failed(name, `${note} (exit code ${code})`.trimStart(), counts, seconds);
}

/** Deals the paths of a step out to its processes. */
function shares({ paths = [], processes = 1 }: Step): readonly (readonly string[])[] {
  const count = Math.max(1, Math.min(processes, paths.length));
  return Array.from({ length: count }, (_, own) => paths.filter((_, i) => i % count === own));
}

/** Counts a step without a failing test as one failure, so that the last line shows it. */
function failed(name: string, note: string, counts: Counts = none, seconds = ""): Outcome {
  return { name, ok: false, note, counts: { ...counts, failed: counts.failed || 1 }, seconds };
}

function row({ name, ok, note, seconds }: Outcome): string {
  return `${ok ? "ok    " : "FAILED"}  ${name.padEnd(8)} ${seconds.padStart(7)}  ${note}`.trimEnd();
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
