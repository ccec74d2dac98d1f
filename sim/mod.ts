// `npm run sim`: simulated processes under faults, many seeds at a time.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { addTotals, NO_TOTALS, reduce, scenarioOf, type Totals } from "./explore.ts";
import { exploreAll } from "./pool.ts";
import { failureText, scenarioLines, totalsText } from "./report.ts";
import { simulate } from "./simulation.ts";

const HELP = `npm run sim -- [options]

  --seeds N      how many seeds to simulate (default 2000)
  --first N      the first seed (default: a new one each time)
  --threads N    how many threads share the seeds (default: one per core)
  --state FILE   keep the progress in a file; the same command continues after an interruption
  --seed N       simulate one seed, print its timeline, and reduce it if it breaks a rule
  --mutants      plant each known bug and count the seeds that the simulator needs to find it
  --help         print this`;

/** A run that can be continued. */
interface State {
  readonly first: number;
  readonly seeds: number;
  readonly totals: Totals;
  readonly ms: number;
}

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    first: { type: "string" },
    threads: { type: "string" },
    state: { type: "string" },
    seed: { type: "string" },
    mutants: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

if (values.help) console.log(HELP);
else if (values.mutants) await plantAll();
else if (values.seed !== undefined) await replay(wholeNumber("--seed", values.seed));
else await exploreMany();

async function exploreMany(): Promise<void> {
  const file = values.state;
  const state = file !== undefined && existsSync(file) ? readState(file) : newState();
  const { first, seeds, totals: before } = state;
  console.log(`seeds from ${first + before.seeds} on`);
  const startedAt = performance.now();
  const save = (done: Totals) => {
    const totals = addTotals(before, done);
    const ms = state.ms + performance.now() - startedAt;
    if (file !== undefined) writeFileSync(file, JSON.stringify({ first, seeds, totals, ms }));
    return { totals, ms };
  };
  const explored = await exploreAll(
    { first: first + before.seeds, count: seeds - before.seeds },
    save,
    values.threads === undefined ? undefined : wholeNumber("--threads", values.threads),
  );
  const { totals, ms } = save(explored);
  console.log(totalsText(totals, ms));
  if (explored.failure === undefined) return;
  const { seed, rule } = explored.failure;
  console.log(failureText(seed, await reduce(seed, rule)));
  process.exitCode = 1;
}

async function replay(seed: number): Promise<void> {
  const scenario = scenarioOf(seed);
  const { violation, timeline, hash, steps } = await simulate(scenario);
  if (violation !== undefined) {
    console.log(failureText(seed, await reduce(seed, violation.rule)));
    process.exitCode = 1;
    return;
  }
  console.log([...scenarioLines(scenario), String(timeline)].join("\n"));
  console.log(`${steps} steps, no rule broken, hash ${hash}`);
}

async function plantAll(): Promise<void> {
  const { findMutants } = await import("./mutation.ts");
  const found = await findMutants({ seeds: 4_000, onFound: (line) => console.log(line) });
  const missed = found.filter(({ rule }) => rule === undefined);
  console.log(`${found.length - missed.length} of ${found.length} planted bugs found`);
  if (missed.length > 0) process.exitCode = 1;
}

function newState(): State {
  const first = values.first === undefined
    ? Math.floor(Math.random() * 2 ** 30)
    : wholeNumber("--first", values.first);
  return { first, seeds: wholeNumber("--seeds", values.seeds), totals: NO_TOTALS, ms: 0 };
}

function readState(file: string): State {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new Error(`Cannot continue from ${file}: it is no state of a run. Delete it`, { cause });
  }
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  console.error(`Invalid ${option}: expected a whole number, got ${JSON.stringify(text)}`);
  process.exit(2);
}
