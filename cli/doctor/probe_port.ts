import { textOf } from "../_errors.ts";
import { askStatus } from "../_health_client.ts";
import { checkPort, loadHealth } from "../_check_health.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";

/** Whether probes can be answered: the packages are there, and the port is free. */
export async function probePort({ healthPort, healthHost }: Settings): Promise<readonly Finding[]> {
  if (healthPort === undefined) return [];
  return [await packages(), await port(healthPort, healthHost)].filter((it) => it !== undefined);
}

async function packages(): Promise<Finding | undefined> {
  try {
    await loadHealth();
    return undefined;
  } catch (error) {
    return problem("health", {
      found: textOf(error),
      why: "run would end with exit code 2",
      change: "install what is missing",
    });
  }
}

async function port(healthPort: number, host: string): Promise<Finding> {
  const place = `${host}:${healthPort}`;
  const code = await checkPort(healthPort, host).then(() => undefined, codeOf);
  if (code === undefined) return ok("port", `${place} is free for probes`);
  if (code === "EACCES") {
    return problem("port", {
      found: `${place} may not be listened at`,
      why: "ports below 1024 need a privilege",
      change: "--health-port 8080",
    });
  }
  if (code !== "EADDRINUSE") {
    return problem("port", {
      found: `nothing can listen at ${place}: ${code}`,
      why: "the group could not start",
      change: "--health-host, to an address of this machine",
    });
  }
  const ours = await askStatus(`http://127.0.0.1:${healthPort}`).then(() => true, () => false);
  const found = `${place} is taken${ours ? " by a group of lastcall" : ""}`;
  const why = "two cannot listen at one port: the second one does not start";
  const change = `another --health-port${ours ? ", unless that is this worker already" : ""}`;
  return (ours ? warning : problem)("port", { found, why, change });
}

/** What the system calls it. */
function codeOf({ cause, message }: Error): string {
  return (cause as { readonly code?: string } | undefined)?.code ?? message;
}
