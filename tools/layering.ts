// Checks the imports of the sources. ARCHITECTURE.md describes the rules. dependency-cruiser 18 cannot
// replace this file: it does not read TypeScript 7, nor globals, timers and modules named by a constant.

import { posix } from "node:path";
import { ENGINES } from "../src/engines/registry.ts";
import type { Source } from "./source_scan.ts";

/** A longer file has more than one idea. */
export const MAX_LINES = 300;

/** The contracts of the core, and the checks of options. They import only each other. */
const PORTS: readonly string[] = [
  "src/_checks.ts",
  "src/clock.ts",
  "src/runtime.ts",
  "src/errors.ts",
  "src/log.ts",
  "src/random.ts",
];

/** The folders of `src/`, lowest first. A folder imports only from itself, from lower ones and ports. */
const FOLDERS: readonly string[] = [
  "telemetry",
  "lifecycle",
  "mailbox",
  "engines",
  "lease",
  "loops",
  "cron",
  "agents",
  "health",
  "terminal",
  "group",
  "evals",
  "service",
  "coordination",
  "testing",
];

/** The modules outside the project that a file may import. A file without a rule may import none. */
const OUTSIDE: readonly (readonly [importer: RegExp, allowed: RegExp])[] = [
  [/^src\/clock\.ts$/, /^@std\/async$/],
  [/^src\/testing\//, /^@std\/assert$/],
  // Two optional peers, each imported by one file.
  [/^src\/library_log\.ts$/, /^@logtape\/logtape$/],
  [/^src\/telemetry\/open_telemetry\.ts$/, /^@opentelemetry\/api$/],
  [/^src\/agents\/adapters\/chat\.ts$/, /^eventsource-parser\/stream$/],
  // The subpath of a loop that needs an optional peer, as `./health` needs hono.
  [/^src\/cron\/schedule\.ts$/, /^croner$/],
  // A journal is a file. All runtimes have this module.
  [/^src\/evals\/journal\.ts$/, /^node:fs\/promises$/],
  // A board can be a directory.
  [/^src\/coordination\/directory\//, /^node:(fs\/promises|path)$/],
  [/^src\/(health|service)\//, /^hono(\/|$)/],
  // An engine may import its client, an optional peer, but no module of a runtime.
  [/^src\/engines\//, /^(?!node:|bun|deno|hono)[@a-z]/],
  // SQLite is a file, and a part of the runtimes.
  [/^src\/engines\/sqlite\//, /^node:(sqlite|fs\/promises)$/],
  // Clients that are a part of Bun, each imported by one file.
  [/^src\/engines\/sqlite\/drivers\.ts$/, /^bun:sqlite$/],
  [/^src\/engines\/redis\/_bun_client\.ts$/, /^bun$/],
  // Examines the file synchronously, because it does so within a transaction.
  [/^src\/engines\/sqlite\/_file_identity\.ts$/, /^node:fs$/],
  [/^runtime_adapters\//, /^node:/],
  [/^runtime_adapters\/node\.ts$/, /^@hono\/node-server$/],
  // The command uses files, a terminal and arguments.
  [/^cli\//, /^(node:|commander$)/],
];

/** The command uses the package, and checks of its core. */
const CLI_MAY_IMPORT = /^(cli\/|src\/|mod\.ts$|deno\.json$)/;

/** Uses of a runtime's API. */
const RUNTIME_GLOBAL =
  /^(?:Deno|Bun|process|globalThis\s*(?:\?\.)?\[.*|globalThis\s*\??\.\s*process)$/s;
const NAMED_RUNTIME = /^(?:Deno|Bun)$/;
const RAW_RANDOM = /^(?:Math\.random|randomUUID|getRandomValues)$/;
const RAW_TIMER = /set(?:Timeout|Interval|Immediate)$/;
/** Deno KV is a part of Deno, so one file uses the API of Deno. */
const KNOWS_RUNTIME = "src/engines/deno_kv/_open_kv.ts";
/** These load modules by a URL that they are given. */
const LOADS_ANY = [
  "src/lease/_lease_thread_main.ts",
  "cli/_module.ts",
  "runtime_adapters/_thread.ts",
];

/** Returns the violations of the rules, one sentence each. */
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
  const isAllowed = needsRuntime(path, target) || tellsVersion(path, target);
  if (path.startsWith("src/") && !target.startsWith("src/") && !isAllowed) {
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

/** The status has the version of the package, which the manifest alone tells. */
function tellsVersion(path: string, target: string): boolean {
  return target === "deno.json" && path === "src/health/_status_source.ts";
}

/** Returns the folder below `src/`; empty for other files. */
function folderOf(path: string): string {
  return /^src\/(\w+)\//.exec(path)?.[1] ?? "";
}

function adapterMayImport(path: string, target: string): boolean {
  if (target === "src/runtime.ts") return true;
  // detect.ts chooses the adapter.
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
  const random = core && path !== "src/random.ts" ? use(RAW_RANDOM) : undefined;
  if (random) found.push(`${path} must take random values from a Random: ${random}`);
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

/** Files that name engines besides the registry, with the reason. */
const NAMES_ENGINES: ReadonlyMap<string, string> = new Map([
  ["chaos/options.ts", "npm run chaos has a default engine"],
  ["cli/commands/agents.ts", "boards exist on two servers, which src/coordination decides"],
  ["tools/build.ts", "one package is native, so bundlers must not see it"],
]);

/**
 * Returns the files that name engines although a registry entry is the only place for that. A file
 * outside of an engine may show the URL of one engine as an example. It may not compare with a scheme or
 * a package, or mention several engines.
 */
export function engineViolations(sources: readonly Source[]): readonly string[] {
  const named = sources.filter(({ path }) =>
    !path.startsWith("src/engines/") && !NAMES_ENGINES.has(path)
  );
  return named.flatMap(({ path, strings }) => {
    const engines = ENGINES.filter(({ inProcess }) => inProcess !== true).map((engine) => ({
      name: engine.name,
      terms: [engine.name, ...engine.schemes, ...engine.packages ?? []],
    }));
    const compared = engines.flatMap(({ terms }) => terms.filter((it) => strings.includes(it)));
    const mentioned = engines.filter(({ terms }) => terms.some((term) => mentions(strings, term)));
    return [
      ...compared.map((term) => `${path} must read "${term}" from the engine registry`),
      ...(mentioned.length > 1
        ? [`${path} must not list engines: ${mentioned.map(({ name }) => name).join(", ")}`]
        : []),
    ];
  });
}

function mentions(strings: readonly string[], term: string): boolean {
  const escaped = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`(?<![\\w@/.+-])${escaped}(?![\\w/.-])`);
  return strings.some((text) => pattern.test(text));
}
