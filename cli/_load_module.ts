// Loads the module that `run` is given, and says in one line why it cannot be loaded.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { textOf, usageError } from "./_errors.ts";

/** What a module exports, by name. */
export type Exports = Readonly<Record<string, unknown>>;

/** Imports the module at a path, which counts from the current folder. */
export async function loadModule(path: string): Promise<Exports> {
  const file = resolve(path);
  if (!existsSync(file)) {
    throw usageError(`There is no module ${path}: give the path of a file, as ./worker.ts`);
  }
  try {
    return await import(pathToFileURL(file).href);
  } catch (error) {
    throw usageError(whyNot(path, error), { cause: error });
  }
}

function whyNot(path: string, error: unknown): string {
  const { code, name } = Object(error) as { readonly code?: unknown; readonly name?: string };
  if (code === "ERR_UNKNOWN_FILE_EXTENSION") {
    return `Node ${process.versions.node} cannot load ${path}: TypeScript needs Node 22.18 or ` +
      "newer, Bun or Deno; or compile it to JavaScript";
  }
  const kind = error instanceof Error && name !== "Error" ? `${name}: ` : "";
  return `${path} cannot be loaded: ${kind}${textOf(error)} (LASTCALL_DEBUG=1 shows where)`;
}
