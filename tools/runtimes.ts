// The paths of the runtimes and tools in the devDependencies.

import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The runtimes that every test runs on. */
export type RuntimeName = "node" | "bun" | "deno";

/** The root of the repository. */
export const root: string = fileURLToPath(new URL("..", import.meta.url));

/** The folder with the programs of the devDependencies. */
export const binFolder: string = join(root, "node_modules", ".bin");

const executables: Readonly<Record<RuntimeName, string>> = {
  node: join("node", "bin", "node"),
  bun: join("bun", "bin", "bun.exe"),
  deno: join("deno", "deno"),
};

/**
 * Returns the executable of a runtime. The program in `.bin` may be a script that does not forward
 * signals to the runtime.
 */
export function runtimeBinary(name: RuntimeName): string {
  const path = join(root, "node_modules", executables[name]);
  const candidates = [path, `${path}.exe`];
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found === undefined) {
    throw new Error(`No ${name} executable at ${candidates.join(" or ")}: run npm ci`);
  }
  return found;
}

/** Returns the path of a program in `.bin`. */
export function tool(name: string): string {
  return join(binFolder, process.platform === "win32" ? `${name}.cmd` : name);
}
