// The module of `run` and `doctor`: loads it and finds the handler, the loops or the group that it exports.
// Exports are recognized by shape, not by class: the module may use its own copy of the package.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { Handler, LoopGroup, MailboxLoopOptions, Runnable } from "../mod.ts";
import { checkRunnable } from "../src/lifecycle/runnable.ts";
import { asUsage, messageOf, usageError } from "./_errors.ts";

/** The exports of a module by name. */
export type Exports = Readonly<Record<string, unknown>>;

/** The export `options` of a module whose handler runs in a loop. */
export type HandlerOptions = Partial<MailboxLoopOptions<unknown>>;

/** What a module exports to run. */
export type Runnables =
  | {
    readonly kind: "handler";
    readonly handler: Handler<unknown>;
    readonly options: HandlerOptions;
  }
  | { readonly kind: "loops"; readonly loops: readonly Runnable[] }
  | { readonly kind: "group"; readonly group: Pick<LoopGroup, "main"> };

const EXPECTED = "a handler function, a loop, several loops, or a LoopGroup";

/** Loads a module, by a path relative to the current folder, and returns what it exports to run. */
export async function loadRunnables(path: string): Promise<Runnables> {
  return await runnablesOf(path, await loadModule(path));
}

/** Returns what a module exports to run. */
export async function runnablesOf(path: string, exports: Exports): Promise<Runnables> {
  if (exports["default"] === undefined) return fromNamedExports(path, exports);
  const value = await exports["default"];
  const found = recognize(path, "default", value, exports);
  if (found !== undefined) return found;
  throw usageError(
    `The default export of ${path} cannot be run: expected ${EXPECTED}, got ${kindOf(value)}`,
  );
}

/** Loads a module, by a path relative to the current folder. This runs its code. */
export async function loadModule(path: string): Promise<Exports> {
  const file = resolve(path);
  if (!existsSync(file)) {
    throw usageError(`No module ${path}: give the path of a file, as ./worker.ts`);
  }
  try {
    return await import(pathToFileURL(file).href);
  } catch (error) {
    throw usageError(loadFailure(path, error), { cause: error });
  }
}

function loadFailure(path: string, error: unknown): string {
  const { code, name } = Object(error) as { readonly code?: unknown; readonly name?: string };
  if (code === "ERR_UNKNOWN_FILE_EXTENSION") {
    return `Node ${process.versions.node} cannot load ${path}: TypeScript needs Node 22.18 or ` +
      "newer, Bun or Deno; or compile it to JavaScript";
  }
  const kind = error instanceof Error && name !== "Error" ? `${name}: ` : "";
  return `Cannot load ${path}: ${kind}${messageOf(error)} (LASTCALL_DEBUG=1 shows the stack)`;
}

/** Prefers a group to loops, because the loops of a group are often exported as well. */
function fromNamedExports(path: string, exports: Exports): Runnables {
  const named = Object.entries(exports).filter(([name]) => name !== "options");
  const candidates = named.flatMap(([name, value]) => {
    const found = recognize(path, name, value, exports);
    return found === undefined ? [] : [{ name, found }];
  });
  const ofKind = <K extends Runnables["kind"]>(kind: K) =>
    candidates.filter(({ found }) => found.kind === kind) as {
      readonly name: string;
      readonly found: Runnables & { readonly kind: K };
    }[];
  const groups = ofKind("group");
  if (groups.length === 1) return groups[0]!.found;
  if (groups.length > 1) throw ambiguous(path, "groups", groups);
  const loops = [...new Set(ofKind("loops").flatMap(({ found }) => found.loops))];
  if (loops.length > 0) return { kind: "loops", loops };
  const handlers = ofKind("handler");
  const handler = handlers.find(({ name }) => name === "handler") ?? handlers[0];
  if (handler === undefined) {
    const names = named.map(([name]) => name).join(", ") || "nothing";
    throw usageError(`${path} exports nothing to run: expected ${EXPECTED}, got ${names}`);
  }
  if (handlers.length > 1 && handler.name !== "handler") {
    throw ambiguous(path, "functions", handlers);
  }
  return handler.found;
}

function recognize(
  path: string,
  name: string,
  value: unknown,
  exports: Exports,
): Runnables | undefined {
  if (isGroup(value)) return { kind: "group", group: value };
  if (typeof value === "function") {
    if (isClass(value)) return undefined;
    const options = optionsOf(path, exports);
    return { kind: "handler", handler: value as Handler<unknown>, options };
  }
  const loop = (it: unknown) => asUsage(() => checkRunnable(it, `The export "${name}" of ${path}`));
  if (looksRunnable(value)) return { kind: "loops", loops: [loop(value)] };
  if (Array.isArray(value) && value.length > 0 && value.some(looksRunnable)) {
    return { kind: "loops", loops: value.map(loop) };
  }
  return undefined;
}

function isGroup(value: unknown): value is LoopGroup {
  const { loops, main, run } = Object(value);
  return Array.isArray(loops) && typeof main === "function" && typeof run === "function";
}

function looksRunnable(value: unknown): boolean {
  const { run, shutdown } = Object(value);
  return typeof run === "function" && typeof shutdown === "function";
}

function isClass(value: object): boolean {
  return /^class\b/.test(Function.prototype.toString.call(value));
}

function optionsOf(path: string, { options = {} }: Exports): HandlerOptions {
  if (typeof options === "object" && options !== null) return options;
  throw usageError(`The export "options" of ${path} must be an object with options of MailboxLoop`);
}

function kindOf(value: unknown): string {
  if (typeof value === "function") return "a class: export an instance of it";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array without loops" : `an object with ${Object.keys(value)}`;
}

function ambiguous(path: string, what: string, found: readonly { readonly name: string }[]): Error {
  const names = found.map(({ name }) => name).join(", ");
  return usageError(
    `${path} exports several ${what}, ${names}: make one of them the default export`,
  );
}
