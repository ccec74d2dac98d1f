// What the core weighs: the bytes of its bundle, and the time it takes to import it.

import { build } from "esbuild";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { root, type RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atMost, median, ms, type Part, quantile } from "./_figures.ts";
import type { Subject } from "./_subject.ts";

interface Bundle {
  readonly code: string;
  /** The modules of the runtime that it imports. */
  readonly builtins: readonly string[];
}

const ROUNDS = 25;
const GOAL_BYTES = 12_000;

/** The size of the bundle, gzipped or not. */
export async function size(): Promise<Part> {
  const { code } = await bundleCore();
  const raw = Buffer.byteLength(code);
  const gzipped = gzipSync(code, { level: 9 }).byteLength;
  return {
    title: "The core as one minified bundle, bytes",
    table: [["", "raw", "gzipped"], ["mod.ts, all exports", String(raw), String(gzipped)]],
    goals: [atMost("core bundle, gzipped,", gzipped, GOAL_BYTES, (it) => `${it} bytes`)],
  };
}

/** How long the import of the core takes in a fresh process, beside modules that hold less. */
export async function importTime(subject: Subject): Promise<Part> {
  const { code, builtins } = await bundleCore();
  const write = async (name: string, text: string) => {
    const path = join(subject.folder, name);
    await writeFile(path, text);
    return pathToFileURL(path).href;
  };
  const empty = await write("empty.mjs", "export {};\n");
  const runtimeOnly = await write(
    "runtime_only.mjs",
    builtins.map((it) => `import "${it}";\n`).join(""),
  );
  const bundle = await write("bundle.mjs", code);

  const table = [["runtime", "module", "median ms", "10 %", "90 %", "over empty"]];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const modules = [
      ["empty module", empty],
      [`only ${builtins.join(", ")}`, runtimeOnly],
      ["core, minified bundle", bundle],
      [runtime === "deno" ? "core, mod.ts" : "core, npm package", subject.entry(runtime)],
    ] as const;
    const samples = await interleaved(runtime, modules.map(([, url]) => url));
    const baseline = median(samples[0] ?? []);
    for (const [index, [name]] of modules.entries()) {
      const values = samples[index] ?? [];
      const cells = [median(values), quantile(values, 0.1), quantile(values, 0.9)].map(ms);
      table.push([runtime, name, ...cells, `+ ${ms(median(values) - baseline)}`]);
    }
  }
  return { title: `Import in a fresh process, ${ROUNDS} interleaved rounds`, table, goals: [] };
}

async function interleaved(
  runtime: RuntimeName,
  urls: readonly string[],
): Promise<readonly (readonly number[])[]> {
  const samples: number[][] = urls.map(() => []);
  // The first round only fills the caches of disk and compiler.
  for (let round = -1; round < ROUNDS; round++) {
    for (const [index, url] of urls.entries()) {
      const took = await resultOf<number>(runtime, "import_time.ts", [url]);
      if (round >= 0) samples[index]?.push(took);
    }
  }
  return samples;
}

async function bundleCore(): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["mod.ts"],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    target: ["es2022", "node20"],
    external: ["node:*"],
    metafile: true,
    write: false,
    outfile: "core.js",
  });
  const [output] = Object.values(metafile.outputs);
  const builtins = (output?.imports ?? []).map(({ path }) => path);
  return { code: outputFiles[0]?.text ?? "", builtins: [...new Set(builtins)] };
}
