// The directions of imports, as rules a program can check. ARCHITECTURE.md says them in prose.

import { posix } from "node:path";
import type { Source } from "./source_scan.ts";

/** Longer files are two ideas. */
export const MAX_LINES = 300;

/** The contracts everything else is written against, and the checks of options, which import nothing. */
const PORTS: readonly string[] = [
  "src/_checks.ts",
  "src/clock.ts",
  "src/runtime.ts",
  "src/errors.ts",
  "src/log.ts",
];

/** The folders of `src/`, lowest first. A folder imports only from itself, from lower ones and ports. */
const FOLDERS: readonly string[] = [
  "telemetry",
  "lifecycle",
  "mailbox",
  "engines",
  "lease",
  "loops",
  "agents",
  "health",
  "terminal",
  "group",
  "evals",
  "service",
  "coordination",
  "testing",
];

/** What outside the project a part may import; whoever matches no rule may import nothing. */
const OUTSIDE: readonly (readonly [importer: RegExp, allowed: RegExp])[] = [
  [/^src\/clock\.ts$/, /^@std\/async$/],
  [/^src\/testing\//, /^@std\/assert$/],
  // Two optional peers, each known to one file.
  [/^src\/library_log\.ts$/, /^@logtape\/logtape$/],
  [/^src\/telemetry\/open_telemetry\.ts$/, /^@opentelemetry\/api$/],
  [/^src\/agents\/adapters\/chat\.ts$/, /^eventsource-parser\/stream$/],
  // A journal is a file, by the module that all runtimes share.
  [/^src\/evals\/journal\.ts$/, /^node:fs\/promises$/],
  // Agents of one machine can meet in a directory.
  [/^src\/coordination\/directory\//, /^node:(fs\/promises|path)$/],
  [/^src\/(health|service)\//, /^hono(\/|$)/],
  // An engine may use its client, an optional peer, but never the runtime.
  [/^src\/engines\//, /^(?!node:|bun|deno|hono)[@a-z]/],
  // SQLite is a file, and comes with the runtime: the modules that all of them share.
  [/^src\/engines\/sqlite\//, /^node:(sqlite|fs\/promises)$/],
  // Clients that come with Bun, each known to one file.
  [/^src\/engines\/sqlite\/drivers\/bun_sqlite\.ts$/, /^bun:sqlite$/],
  [/^src\/engines\/redis\/_bun_client\.ts$/, /^bun$/],
  // Between two statements of a transaction there is no time to wait for a look at the file.
  [/^src\/engines\/sqlite\/_file_identity\.ts$/, /^node:fs$/],
  [/^runtime_adapters\//, /^node:/],
  [/^runtime_adapters\/node\.ts$/, /^@hono\/node-server$/],
  // The command is a program: it has files, a terminal and arguments.
  [/^cli\//, /^(node:|commander$)/],
];

/** The command is made of the package as anybody has it, and of the checks in its core. */
const CLI_MAY_IMPORT = /^(cli\/|src\/|mod\.ts$|deno\.json$)/;

/** Names a runtime. */
const RUNTIME_GLOBAL =
  /^(?:Deno|Bun|process|globalThis\s*(?:\?\.)?\[.*|globalThis\s*\??\.\s*process)$/s;
const NAMED_RUNTIME = /^(?:Deno|Bun)$/;
const RAW_TIMER = /set(?:Timeout|Interval|Immediate)$/;
/** A store that comes with a runtime, and can be had in no other way: one file knows it. */
const KNOWS_RUNTIME = "src/engines/deno_kv/_open_kv.ts";
/** These load modules by an address that they are given. */
const LOADS_ANY = [
  "src/lease/_lease_thread_main.ts",
  "cli/_module.ts",
  "runtime_adapters/_thread.ts",
];

/** Everything that is wrong with these sources, one sentence each. */
export function violations(sources: readonly Source[]): readonly string[] {
  const graph = new Map(sources.map((source) => [source.path, projectImports(source)]));
  return [
    ...sources.flatMap((source) => [
      ...outsideViolations(source),
      ...(graph.get(source.path) ?? []).flatMap((target) =>
        directionViolations(source.path, target)
      ),
      ...codeViolations(source),
    ]),
    ...cycles(graph),
  ];
}

function projectImports({ path, imports }: Source): readonly string[] {
  return imports.filter(isRelative).map((it) => posix.join(posix.dirname(path), it));
}

function isRelative(specifier: string): boolean {
  return specifier.startsWith(".");
}

function outsideViolations({ path, imports }: Source): readonly string[] {
  return imports
    .filter((it) => !isRelative(it))
    .filter((it) => !OUTSIDE.some(([importer, allowed]) => importer.test(path) && allowed.test(it)))
    .map((it) => `${path} must not import "${it}"`);
}

function directionViolations(path: string, target: string): readonly string[] {
  const found: string[] = [];
  if (PORTS.includes(path) && !PORTS.includes(target)) {
    found.push(`${path} is a port and must import ports only, not ${target}`);
  }
  if (path.startsWith("src/") && !target.startsWith("src/") && !needsRuntime(path, target)) {
    found.push(`${path} is core and must not import ${target}`);
  }
  const folder = FOLDERS.indexOf(folderOf(path));
  if (folder >= 0 && FOLDERS.indexOf(folderOf(target)) > folder) {
    found.push(`${path} must not import ${target}, which is in a higher folder`);
  }
  if (path.startsWith("runtime_adapters/") && !adapterMayImport(path, target)) {
    found.push(`${path} is an adapter and must import src/runtime.ts alone, not ${target}`);
  }
  if (path.startsWith("cli/") && !CLI_MAY_IMPORT.test(target)) {
    found.push(`${path} is the command and must not import ${target}`);
  }
  if (path === "mod.ts" && target.startsWith("cli/")) {
    found.push(`${path} is the library and must not import the command, ${target}`);
  }
  if (posix.basename(target).startsWith("_") && !path.startsWith(`${posix.dirname(target)}/`)) {
    found.push(`${path} must not import ${target}, which is private to its folder`);
  }
  return found;
}

/** Entry points whose loops and groups run without another import get the runtime from `mod.ts`. */
function needsRuntime(path: string, target: string): boolean {
  return target === "mod.ts" && /^src\/(agents|evals)\/mod\.ts$/.test(path);
}

/** The folder below `src/`; empty for ports and for files outside. */
function folderOf(path: string): string {
  return /^src\/(\w+)\//.exec(path)?.[1] ?? "";
}

function adapterMayImport(path: string, target: string): boolean {
  if (target === "src/runtime.ts") return true;
  // Choosing an adapter is what detect.ts is for.
  return /^runtime_adapters\/_\w+\.ts$/.test(target) ||
    (path === "runtime_adapters/detect.ts" && target.startsWith("runtime_adapters/"));
}

function codeViolations(source: Source): readonly string[] {
  const { path, globals, computedImports, exportsUnnamed, lineCount } = source;
  const found: string[] = [];
  const core = path.startsWith("src/");
  const use = (pattern: RegExp) => globals.find((it) => pattern.test(it));
  const global = core && path !== KNOWS_RUNTIME ? use(RUNTIME_GLOBAL) : undefined;
  if (global) found.push(`${path} is core and must not know a runtime: ${global}`);
  const known = path.startsWith("cli/") ? use(NAMED_RUNTIME) : undefined;
  if (known) found.push(`${path} runs on all runtimes and must not know one: ${known}`);
  const timer = core && path !== "src/clock.ts" ? use(RAW_TIMER) : undefined;
  if (timer) found.push(`${path} must take its time from a Clock: ${timer}`);
  const [computed] = LOADS_ANY.includes(path) ? [] : computedImports;
  if (computed) found.push(`${path} must name the module that it imports: ${computed}`);
  if (path === "mod.ts" && exportsUnnamed) found.push(`${path} must export by name`);
  if (lineCount > MAX_LINES) found.push(`${path} has ${lineCount} lines, more than ${MAX_LINES}`);
  return found;
}

function cycles(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const at = trail.indexOf(path);
    if (at >= 0) found.push(`import cycle: ${[...trail.slice(at), path].join(" → ")}`);
    if (at >= 0 || done.has(path)) return;
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return found;
}
