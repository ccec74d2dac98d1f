// Checks of this machine: the runtime, the process and the health port.

import { existsSync } from "node:fs";
import process from "node:process";
import { defaultRuntime } from "../../src/runtime.ts";
import { messageOf } from "../_errors.ts";
import { fetchStatus } from "../_health.ts";
import { checkHealthPackages, checkPort } from "../_health.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import { optionName, type Settings } from "./settings.ts";

/** The facts that {@linkcode checkRuntime} checks. */
export interface RuntimeFacts {
  readonly name: string;
  readonly version: string;
  readonly pid: number;
  readonly moduleExists: boolean;
}

/** Collects the facts. */
export function runtimeFacts({ module }: Settings): RuntimeFacts {
  const { name } = defaultRuntime();
  return {
    name,
    version: process.versions[name] ?? process.versions.node,
    pid: process.pid,
    moduleExists: module === undefined || existsSync(module),
  };
}

/** Checks that this runtime can load the module, and that the watchdog can end the process. */
export function checkRuntime({ module }: Settings, facts: RuntimeFacts): readonly Finding[] {
  const { name, version, pid } = facts;
  const runtime = moduleFinding(module, facts) ?? ok("runtime", `${name} ${version}`);
  if (pid !== 1) return [runtime];
  return [
    runtime,
    warning("process", {
      found: "this is the first process of its container (PID 1)",
      why:
        "it ignores its own SIGKILL, so the watchdog cannot end it when its event loop is blocked",
      change: "an init process: docker run --init, or tini as the entry point",
    }),
  ];
}

function moduleFinding(
  module: string | undefined,
  { name, version, moduleExists }: RuntimeFacts,
): Finding | undefined {
  if (module === undefined) return undefined;
  if (!moduleExists) {
    return problem("runtime", {
      found: `no module ${module}`,
      why: "run would end with exit code 2",
      change: "the path, which is relative to the current folder",
    });
  }
  const isTypeScript = /\.[cm]?tsx?$/.test(module);
  if (!isTypeScript || name !== "node" || runsTypeScript(version)) {
    return ok("runtime", `${name} ${version} runs ${module}`);
  }
  return problem("runtime", {
    found: `Node ${version} cannot load ${module}`,
    why: "TypeScript needs Node 22.18 or newer, Bun or Deno",
    change: "a newer Node; or compile the module to JavaScript",
  });
}

/** Node runs TypeScript without a flag since 22.18 and 23.6. */
function runsTypeScript(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 23 || major === 23 && minor >= 6 || major === 22 && minor >= 18;
}

/** Checks that the packages for the health port are installed and that the port is free. */
export async function checkHealthPort(
  settings: Settings,
): Promise<readonly Finding[]> {
  const { healthPort } = settings;
  if (healthPort === undefined) return [];
  const missing = await checkHealthPackages().then(() => [], (error) => [
    problem("health", {
      found: messageOf(error),
      why: "the worker could not start",
      change: "install the missing packages",
    }),
  ]);
  return [...missing, await portFinding(settings, healthPort)];
}

async function portFinding(settings: Settings, port: number): Promise<Finding> {
  const host = settings.healthHost;
  const portOption = optionName(settings, "health-port");
  const place = `${host}:${port}`;
  const code = await checkPort(port, host).then(() => undefined, systemCode);
  if (code === undefined) return ok("port", `${place} is free`);
  if (code === "EACCES") {
    return problem("port", {
      found: `no permission to listen on ${place}`,
      why: "ports below 1024 need a privilege",
      change: `${portOption} 8080`,
    });
  }
  if (code !== "EADDRINUSE") {
    return problem("port", {
      found: `cannot listen on ${place}: ${code}`,
      why: "the group could not start",
      change: `${optionName(settings, "health-host")}, to an address of this machine`,
    });
  }
  const isGroup = await fetchStatus(`http://127.0.0.1:${port}`).then(() => true, () => false);
  const found = `${place} is in use${isGroup ? " by a group of lastcall" : ""}`;
  const why = "a second process cannot listen on the same port and would not start";
  const change = `another ${portOption}${isGroup ? ", unless that group is this worker" : ""}`;
  return (isGroup ? warning : problem)("port", { found, why, change });
}

function systemCode({ cause, message }: Error): string {
  return (cause as { readonly code?: string } | undefined)?.code ?? message;
}
