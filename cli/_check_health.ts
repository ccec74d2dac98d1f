import { createServer } from "node:net";
import { checkToken } from "../src/health/health_options.ts";
import { loadHono } from "../src/health/health_server.ts";
import { defaultRuntime } from "../src/runtime.ts";
import { CliError, textOf, usageError } from "./_errors.ts";

/** What was asked for. */
export interface HealthPlan {
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/** Refuses a token that is none, and a port where nothing can listen, for want of packages too. */
export async function checkHealth({ healthPort, healthHost, token }: HealthPlan): Promise<void> {
  try {
    if (token !== undefined) checkToken(token);
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
  if (healthPort === undefined) return;
  await loadHealth();
  await checkPort(healthPort, healthHost ?? "0.0.0.0");
}

/** Loads what answers probes, or says which package is missing. */
export async function loadHealth(): Promise<typeof import("../src/health/mod.ts")> {
  try {
    await loadHono("--health-port", defaultRuntime());
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
  return await import("../src/health/mod.ts");
}

/** Listens there for a moment. */
export function checkPort(port: number, host: string): Promise<void> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      const message = `Nothing can listen at ${host}:${port}: ${textOf(error)}`;
      reject(new CliError("failed", message, { cause: error }));
    });
    server.listen(port, host, () => server.close(() => resolve()));
  });
}
