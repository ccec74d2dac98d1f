// Where the runtimes of the devDependencies are.

import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The runtimes that every test runs on. */
export type RuntimeName = "node" | "bun" | "deno";

/** The root of the repository. */
export const root: string = fileURLToPath(new URL("..", import.meta.url));

/** Where npm puts the programs of the devDependencies. */
export const binFolder: string = join(root, "node_modules", ".bin");

const executables: Readonly<Record<RuntimeName, string>> = {
  node: join("node", "bin", "node"),
  bun: join("bun", "bin", "bun.exe"),
  deno: join("deno", "deno"),
};

/**
 * The real executable of a runtime.
 *
 * The one in `.bin` may be a script that starts the executable as a child and does not pass
 * signals on; whoever sends signals must reach the runtime itself.
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

/** A program of a devDependency, by the name it has in `.bin`. */
export function tool(name: string): string {
  return join(binFolder, process.platform === "win32" ? `${name}.cmd` : name);
}
