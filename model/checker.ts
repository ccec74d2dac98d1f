// Runs spin, a C compiler and the verifier that they make, and reads the verifier's answer.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../tools/process.ts";
import { root } from "../tools/runtimes.ts";
import type { Formula, Property } from "./configurations.ts";

const MODEL = join(root, "model", "lastcall.pml");

/** The C compilers, in the order in which they are tried. */
const COMPILERS = ["gcc", "clang", "cc"];

/** The memory limit of one search, in megabytes. */
const MEMORY_MB = 6_000;

/** The programs that a check needs. */
export interface Tools {
  readonly compiler: string;
}

/** What to check. */
export interface Check {
  readonly name: string;
  readonly parameters: string;
  readonly formula?: Formula;
  /** The least number of states to expect. */
  readonly atLeast?: number;
  /** The switch of a broken variant. Its formula is checked under weak fairness. */
  readonly bug?: string;
}

/** What a search found. */
export interface Finding {
  readonly states: number;
  readonly transitions: number;
  readonly depth: number;
  /** The time of the search, without that of the compiler. */
  readonly seconds: number;
  /** The violated property; undefined when all hold. */
  readonly violated: Property | undefined;
}

/** Returns what is missing, by name, or the tools. */
export function findTools(): Tools | string {
  const works = (program: string, option: string) =>
    spawnSync(program, [option], { stdio: "ignore" }).status === 0;
  if (!works("spin", "-V")) return "spin is missing: install Debian's package spin";
  const compiler = COMPILERS.find((it) => works(it, "--version"));
  return compiler === undefined ? `no C compiler: install ${COMPILERS[0]}` : { compiler };
}

/**
 * Searches all states of a model. With a formula, also all cycles.
 *
 * @throws {Error} when the search ended early, or failed for another reason than a property.
 */
export async function check(
  { name, parameters, formula, bug, atLeast = bug === undefined ? Infinity : 0 }: Check,
  { compiler }: Tools,
  timeoutMs: number,
): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), "lastcall-model-"));
  const must = async (program: string, args: readonly string[]) => {
    const { code, output } = await run(program, args, { cwd: folder, timeoutMs });
    if (code !== 0) throw new Error(`${program} failed for the model "${name}": ${output}`);
    return output;
  };
  try {
    const switches = parameters.split(" ");
    if (formula !== undefined) switches.push("LIVENESS");
    if (bug !== undefined) switches.push(bug);
    await must("spin", ["-a", ...switches.map((it) => `-D${it}`), MODEL]);
    // A cycle of a variant must be one of fair runs. A correct model has no cycle at all.
    const fair = bug !== undefined;
    const flags = formula === undefined ? ["-DSAFETY"] : [fair ? "-DNFAIR=3" : "-DNOFAIR"];
    await must(compiler, [
      // Optimizing takes longer than a short search.
      atLeast < 50_000 ? "-O0" : atLeast < 500_000 ? "-O1" : "-O2",
      "-w",
      "-DNOREDUCE",
      `-DMEMLIM=${MEMORY_MB}`,
      ...flags,
      "-o",
      "pan",
      "pan.c",
    ]);
    const search = formula === undefined ? [] : ["-a", ...fair ? ["-f"] : [], "-N", formula];
    return readFinding(
      await must("./pan", ["-m100000", atLeast < 500_000 ? "-w20" : "-w24", ...search]),
      name,
      formula,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Reads the summary of a verifier. */
export function readFinding(output: string, name: string, formula: Formula | undefined): Finding {
  const number = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? NaN);
  const finding = {
    states: number(/^\s*(\S+) states, stored/m),
    transitions: number(/^\s*(\S+) transitions/m),
    depth: number(/depth reached (\d+)/),
    seconds: number(/elapsed time (\S+) seconds/),
    violated: violation(output, formula),
  };
  const errors = number(/errors: (\d+)/);
  const isComplete = !/max search depth too small|search not completed|out of memory/i.test(output);
  const isClear = finding.violated === undefined ? errors === 0 && isComplete : errors > 0;
  if (!isClear || Number.isNaN(finding.states)) {
    throw new Error(`spin did not complete the search of the model "${name}": ${output}`);
  }
  return finding;
}

function violation(output: string, formula: Formula | undefined): Property | undefined {
  const [, asserted] = /assertion violated\s+\(?(\w+)\)?/.exec(output) ?? [];
  if (asserted !== undefined) return asserted as Property;
  return /acceptance cycle/.test(output.replace(/^\s*acceptance\s+cycles.*$/m, ""))
    ? formula
    : undefined;
}
