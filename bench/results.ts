// The results file: what was measured, when, where, and with which versions. `docs/benchmarks.md` is generated from
// it.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { root, type RuntimeName } from "../tools/runtimes.ts";
import type { Part } from "./_figures.ts";

/** The results of a contender: the values of all rounds by name, or why there are none. */
export type Measured = { readonly rounds: Readonly<Record<string, readonly number[]>> } | {
  readonly failed: string;
};

/** A comparison on one runtime. */
export interface Figure {
  readonly comparison: string;
  readonly runtime: RuntimeName;
  readonly title: string;
  /** How many messages there were in each round. */
  readonly count: number;
  readonly contenders: Readonly<Record<string, Measured>>;
}

/** The results of a part. */
export interface PartResult {
  /** The date: `2026-11-20`. */
  readonly date: string;
  readonly seconds: number;
  /** True if the part ran fewer rounds. */
  readonly quick: boolean;
  /** The versions of lastcall, the runtimes, the servers and the peers. */
  readonly versions: Readonly<Record<string, string>>;
  /** Why the part, or some of it, was skipped. */
  readonly missing?: readonly string[];
  /** The comparisons of `comparisons.ts`. */
  readonly figures?: readonly Figure[];
  /** The table of another part. */
  readonly table?: Part;
}

/** The file. */
export interface Results {
  readonly machine: { readonly cores: number; readonly memoryGb: number; readonly system: string };
  readonly parts: Readonly<Record<string, PartResult>>;
}

/** Where the file is. */
const RESULTS_PATH = join(root, "bench", "results.json");

/** Reads the file. */
export async function readResults(): Promise<Results> {
  return JSON.parse(await readFile(RESULTS_PATH, "utf8"));
}

/** Writes the file in the format of `deno fmt`, with lists of numbers on one line. */
export async function writeResults(results: Results): Promise<void> {
  const text = JSON.stringify(results, null, 2).replace(
    /\[\s*(-?[\d.e-]+(?:,\s*-?[\d.e-]+)*)\s*\]/g,
    (_, numbers: string) => `[${numbers.replace(/\s+/g, " ")}]`,
  );
  await writeFile(RESULTS_PATH, `${text}\n`);
}
