// Runs the simulator on a copy of the package with one planted bug.

import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { availableParallelism } from "node:os";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { run } from "../tools/process.ts";
import { root, runtimeBinary } from "../tools/runtimes.ts";
import { MUTANTS } from "./mutants.ts";
import type { Mutant } from "./storage_mutants.ts";

/** The modules that explore seeds, as they are in the copy. */
type Exploration = typeof import("./explore.ts");

/** Returns the text of a file with a planted bug. Throws when the bug does not fit the file any more. */
export function mutate({ name, file, find, replace }: Mutant): string {
  const text = readFileSync(join(root, file), "utf8");
  const parts = text.split(find);
  if (parts.length !== 2) {
    throw new Error(
      `Cannot plant "${name}": ${file} has ${
        parts.length - 1
      } places with its text instead of one. ` +
        "Adapt the mutant in sim/mutants.ts",
    );
  }
  return parts.join(replace);
}

/** Loads the simulator with the bug planted. The bundle is beside the packages that it imports. */
export async function loadMutated(mutant: Mutant): Promise<Exploration> {
  const folder = join(root, "node_modules", ".cache", `sim-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  try {
    const outfile = join(folder, "mutated.mjs");
    const contents = mutate(mutant);
    await build({
      entryPoints: [join(root, "sim", "explore.ts")],
      bundle: true,
      platform: "node",
      format: "esm",
      packages: "external",
      outfile,
      logLevel: "error",
      plugins: [{
        name: "mutant",
        setup({ onLoad }) {
          onLoad({ filter: /\.ts$/ }, ({ path }) => {
            const isMutated = relative(root, path).replaceAll("\\", "/") === mutant.file;
            return isMutated ? { contents, loader: "ts" } : undefined;
          });
        },
      }],
    });
    return await import(pathToFileURL(outfile).href);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How a planted bug was found. */
export interface Finding {
  readonly name: string;
  /** The rule that it broke; undefined when no seed did. */
  readonly rule?: string | undefined;
  /** How many seeds were simulated. */
  readonly seeds: number;
}

/** A bug may keep a simulation busy for ever. */
const MUTANT_TIMEOUT_MS = 240_000;

/** Plants each bug in a process of its own, and simulates fresh seeds until one breaks a rule. */
export async function findMutants(
  { seeds, names, onFound = () => {} }: {
    /** How many seeds each bug gets. */
    readonly seeds: number;
    /** @default {all} */
    readonly names?: readonly string[];
    readonly onFound?: (line: string) => void;
  },
): Promise<readonly Finding[]> {
  const queue = MUTANTS.filter(({ name }) => names?.includes(name) ?? true);
  const findings: Finding[] = [];
  const work = async () => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const finding = await find(mutant.name, seeds);
      findings.push(finding);
      const { name, rule = "NOT FOUND" } = finding;
      onFound(`${name.padEnd(60)} ${String(finding.seeds).padStart(5)}  ${rule}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return findings;
}

async function find(name: string, seeds: number): Promise<Finding> {
  const first = Math.floor(Math.random() * 2 ** 30);
  const args = [join(root, "sim", "_mutant_child.ts"), name, `${first}`, `${seeds}`];
  const { output, code } = await run(runtimeBinary("node"), args, { timeoutMs: MUTANT_TIMEOUT_MS });
  const line = output.split("\n").find((it) => it.startsWith("{"));
  if (code !== 0 || line === undefined) {
    throw new Error(`"${name}" could not be explored: ${output}`);
  }
  return { name, ...JSON.parse(line) };
}
