// What is measured: a copy of the npm package as users have it, so that a build elsewhere in the
// meantime changes nothing. Deno's users have the sources.

import { rmSync } from "node:fs";
import { cp, mkdtemp, readdir, stat, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { run } from "../tools/process.ts";
import { root, type RuntimeName } from "../tools/runtimes.ts";

/** The package as it is measured in one run of the benchmarks. */
export interface Subject {
  /** A folder for whatever a part writes; it goes with the subject. */
  readonly folder: string;
  /** The URL of a module, the main one unless named, as the users of this runtime import it. */
  entry(runtime: RuntimeName, module?: string): string;
  /** Removes the copy, at the end of the process. */
  disposeNow(): void;
}

/** Builds the npm package where it is older than its sources, and takes a copy. */
export async function takeSubject(): Promise<Subject> {
  if (
    await newest(["mod.ts", "src", "runtime_adapters", "tools"]) > await newest(["dist/mod.js"])
  ) {
    const { code, output } = await run(process.execPath, ["tools/build.ts"]);
    if (code !== 0) throw new Error(`The npm package could not be built:\n${output}`);
  }
  const folder = await mkdtemp(join(tmpdir(), "lastcall-bench-"));
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  // Where it finds the clients of its engines.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"), "junction");
  return {
    folder,
    entry(runtime, module = "mod") {
      const path = runtime === "deno"
        ? join(root, `${module}.ts`)
        : join(folder, "dist", `${module}.js`);
      return pathToFileURL(path).href;
    },
    disposeNow: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** When the newest of these files, or of those in these folders, was changed; 0 for none. */
async function newest(names: readonly string[]): Promise<number> {
  const times = await Promise.all(names.map(async (name) => {
    const path = join(root, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) return 0;
    if (!found.isDirectory()) return found.mtimeMs;
    return await newest((await readdir(path)).map((it) => join(name, it)));
  }));
  return Math.max(0, ...times);
}
