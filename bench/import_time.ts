// How long the import of the core takes in a fresh process, compared with smaller modules.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { bundleCore } from "./_core_bundle.ts";
import { median, over, type Part, SPREAD, spread } from "./_figures.ts";
import { rounds } from "./_rounds.ts";
import type { Subject } from "./_subject.ts";

/** What is imported, by its name in the table. */
type Modules = readonly (readonly [name: string, url: string])[];

const ROUNDS = 25;
const LIMIT_MS = 9_000;

/** Measures on every runtime. There is no goal but to see it grow. */
export async function importTime(subject: Subject): Promise<Part> {
  const bundled = await writeModules(subject.folder);
  const table = [["runtime", "module", ...SPREAD, "over empty"]];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const installed = runtime === "deno" ? "core, mod.ts" : "core, npm package";
    const modules: Modules = [...bundled, [installed, subject.entry(runtime)]];
    const samples = await interleaved(runtime, modules);
    const empty = median(samples[0] ?? []);
    for (const [index, [name]] of modules.entries()) {
      const values = samples[index] ?? [];
      table.push([runtime, name, ...spread(values), over(median(values), empty)]);
    }
  }
  return { title: "Import in a fresh process", table, goals: [] };
}

async function writeModules(folder: string): Promise<Modules> {
  const { code, builtins } = await bundleCore();
  const texts: [name: string, text: string][] = [["empty module", "export {};"]];
  if (builtins.length > 0) {
    const imports = builtins.map((it) => `import "${it}";`).join("\n");
    texts.push([`only ${builtins.join(", ")}`, imports]);
  }
  texts.push(["core, minified bundle", code]);
  return await Promise.all(texts.map(async ([name, text], index) => {
    const path = join(folder, `module_${index}.mjs`);
    await writeFile(path, text);
    return [name, pathToFileURL(path).href] as const;
  }));
}

async function interleaved(
  runtime: RuntimeName,
  modules: Modules,
): Promise<readonly (readonly number[])[]> {
  const samples: number[][] = modules.map(() => []);
  for (const round of rounds(1 + ROUNDS, LIMIT_MS)) {
    for (const [index, [, url]] of modules.entries()) {
      const took = await resultOf<number>(runtime, "import_time.ts", [url]);
      // The first round only fills the caches of disk and compiler.
      if (round > 0) samples[index]?.push(took);
    }
  }
  return samples;
}
