// Runs all benchmarks, or the parts named as arguments, one after another. Writes the results to `results.json` and
// generates `docs/benchmarks.md` from that file.
//
// Nothing here fails because of time: the last table says which goals were met on this machine, now.

import { cpus, totalmem } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import { compareGroup } from "./_compare.ts";
import { format, type Part, summary } from "./_figures.ts";
import { takePeers } from "./_peers.ts";
import { QUICK_VARIABLE } from "./_rounds.ts";
import { type Subject, takeSubject } from "./_subject.ts";
import { versionsOf } from "./_versions.ts";
import { COMPARISONS } from "./comparisons.ts";
import { coordination } from "./coordination.ts";
import { writeDocuments } from "./document.ts";
import { engineStop } from "./engine_stop.ts";
import { goalRows, limitText, measuredCells, outcomeText } from "./goal_rows.ts";
import { healthReady } from "./health_ready.ts";
import { importTime } from "./import_time.ts";
import { manyLeases } from "./many_leases.ts";
import { manyLoops } from "./many_loops.ts";
import { messagesSqlite } from "./messages_sqlite.ts";
import { type PartResult, readResults, type Results, writeResults } from "./results.ts";
import { serviceOverhead } from "./service_overhead.ts";
import { size } from "./size.ts";
import { status } from "./status.ts";
import { stopLatency } from "./stop_latency.ts";

const tables: Readonly<Record<string, (subject: Subject) => Promise<Part>>> = {
  engine_stop: engineStop,
  stop_latency: stopLatency,
  many_loops: manyLoops,
  size,
  import_time: importTime,
  messages_sqlite: messagesSqlite,
  many_leases: manyLeases,
  service_overhead: serviceOverhead,
  health_ready: healthReady,
  status,
  coordination,
};

const all = [...Object.keys(COMPARISONS), ...Object.keys(tables)];
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean" }, document: { type: "boolean" } },
});
const unknown = positionals.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`Unknown part ${unknown.join(", ")}. Choose from ${all.join(", ")}.`);
  process.exit(2);
}
if (!options.document) await measure(positionals.length > 0 ? positionals : all);
await writeDocuments();

async function measure(names: readonly string[]): Promise<void> {
  if (options.quick) process.env[QUICK_VARIABLE] = "1";
  // A signal ends the process, and its servers and children end with it.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => process.exit(130));
  }
  const began = performance.now();
  const subject = await takeSubject();
  process.once("exit", () => subject.disposeNow());
  const results: Record<string, PartResult> = {};
  for (const name of names) {
    console.log(`\n${name} …`);
    const partBegan = performance.now();
    try {
      const part = await measurePart(name, subject);
      const seconds = Math.round((performance.now() - partBegan) / 1_000);
      const date = new Date().toISOString().slice(0, 10);
      results[name] = { date, seconds, quick: options.quick ?? false, ...part };
      await merge({ [name]: results[name] });
      console.log(`${formatted(name, results[name])}\n  ${seconds} s`);
    } catch (error) {
      // What cannot be measured is a finding as well, and no reason to leave out the others.
      console.error(`\n${name} could not be measured:`, error);
      process.exitCode = 1;
    }
  }
  console.log(summary(Object.values(results).flatMap(goalsOf)));
  console.log(`  ${Math.round((performance.now() - began) / 1_000)} s in all`);
}

type Measured = Omit<PartResult, "date" | "seconds" | "quick">;

async function measurePart(name: string, subject: Subject): Promise<Measured> {
  const part = COMPARISONS[name];
  if (part === undefined) {
    return { versions: await versionsOf([], []), table: await tables[name]!(subject) };
  }
  const peers = await takePeers();
  const missing = "missing" in peers ? [peers.missing] : [];
  const figures = [];
  const servers = new Set<string>();
  for (const group of part.groups) {
    const measured = await compareGroup(subject, group);
    figures.push(...measured.figures);
    if (measured.server !== undefined) servers.add(measured.server);
    if (measured.missing !== undefined) missing.push(measured.missing);
  }
  const packages = part.groups.flatMap(({ contenders }) => contenders.map((it) => it.package));
  return {
    versions: await versionsOf([...servers], packages.filter((it) => it !== undefined)),
    ...(missing.length > 0 ? { missing } : {}),
    figures,
  };
}

/** Replaces the results of some parts in the file. */
async function merge(parts: Readonly<Record<string, PartResult>>): Promise<void> {
  const before: Partial<Results> = await readResults().catch(() => ({}));
  const merged = { ...before.parts, ...parts };
  await writeResults({
    machine: {
      cores: cpus().length,
      memoryGb: Math.round(totalmem() / 1024 ** 3),
      system: `${process.platform} ${process.arch}`,
    },
    // In the order of the parts, without removed parts.
    parts: Object.fromEntries(
      all.flatMap((name) => merged[name] === undefined ? [] : [[name, merged[name]]]),
    ),
  });
}

function goalsOf({ figures = [], table }: PartResult): Part["goals"] {
  if (table !== undefined) return table.goals;
  return goalRows(figures).map(({ runtime, goal, outcome }) => ({
    goal: `${goal.group}, ${goal.what}, ${runtime}: ${limitText(goal)}`,
    measured: outcomeText(outcome),
    met: "value" in outcome && outcome.met,
  }));
}

function formatted(name: string, { figures = [], table, missing = [] }: PartResult): string {
  if (table !== undefined) return format(table);
  const rows = figures.flatMap(({ runtime, title, count, contenders }) =>
    Object.entries(contenders).map(([contender, measured]) => [
      runtime,
      title,
      contender,
      ...measuredCells(measured, count),
    ])
  );
  const headings = ["runtime", "measurement", "contender", "measured", "CPU per message"];
  const { title } = COMPARISONS[name]!;
  return format({ title, table: [headings, ...rows], goals: [], notes: missing });
}
