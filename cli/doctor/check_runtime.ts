import { existsSync } from "node:fs";
import process from "node:process";
import { defaultRuntime } from "../../src/runtime.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";

/** What there is to know of the program that runs this one. */
export interface RuntimeFacts {
  readonly name: string;
  readonly version: string;
  readonly pid: number;
  /** Whether the module is there. */
  readonly moduleExists: boolean;
}

/** Looks it up. The module is not loaded: what it does is its own business. */
export function factsOf({ module }: Settings): RuntimeFacts {
  const { name } = defaultRuntime();
  return {
    name,
    version: process.versions[name] ?? process.versions.node,
    pid: process.pid,
    moduleExists: module === undefined || existsSync(module),
  };
}

/** Whether this runtime can run the worker, and be ended by its watchdog. */
export function checkRuntime({ module }: Settings, facts: RuntimeFacts): readonly Finding[] {
  const { name, version } = facts;
  return [moduleFinding(module, facts) ?? ok("runtime", `${name} ${version}`), ...first(facts)];
}

function moduleFinding(
  module: string | undefined,
  { name, version, moduleExists }: RuntimeFacts,
): Finding | undefined {
  if (module === undefined) return undefined;
  if (!moduleExists) {
    return problem("runtime", {
      found: `there is no module ${module}`,
      why: "run would end with exit code 2",
      change: "the path, which counts from the current folder",
    });
  }
  const typed = /\.[cm]?tsx?$/.test(module);
  if (!typed || name !== "node" || runsTypeScript(version)) {
    return ok("runtime", `${name} ${version} runs ${module}`);
  }
  return problem("runtime", {
    found: `Node ${version} cannot load ${module}`,
    why: "TypeScript needs Node 22.18 or newer, Bun or Deno",
    change: "a newer Node; or compile it to JavaScript",
  });
}

/** Since 22.18 and 23.6 without a flag. */
function runsTypeScript(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 23 || major === 23 && minor >= 6 || major === 22 && minor >= 18;
}

/** The first process of a container is immune to its own SIGKILL. */
function first({ pid }: RuntimeFacts): readonly Finding[] {
  if (pid !== 1) return [];
  return [warning("process", {
    found: "this is the first process of its container",
    why: "such a process cannot kill itself, so that the watchdog cannot end a blocked event loop",
    change: "an init process: docker run --init, or tini as the entry point",
  })];
}
