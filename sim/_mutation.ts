// Runs the simulator on a copy of the package with one planted bug.

import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { root } from "../tools/runtimes.ts";
import type { Mutant } from "./mutants.ts";

/** The modules that explore seeds, as they are in the copy. */
export type Exploration = typeof import("./explore.ts");

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
