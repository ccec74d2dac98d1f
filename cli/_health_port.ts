// Checks of the health port, before a group listens there.

import { createServer } from "node:net";
import { checkToken } from "../src/health/health_options.ts";
import { loadHono } from "../src/health/health_server.ts";
import { defaultRuntime } from "../src/runtime.ts";
import { asUsage, CliError, messageOf, usageError } from "./_errors.ts";

/** The health options of `run` and `demo`. */
export interface HealthFlags {
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/**
 * Checks the token, the optional packages and the port.
 *
 * @throws {CliError} when one of them cannot be used.
 */
export async function checkHealth({ healthPort, healthHost, token }: HealthFlags): Promise<void> {
  if (token !== undefined) asUsage(() => checkToken(token));
  if (healthPort === undefined) return;
  await checkHealthPackages();
  await checkPort(healthPort, healthHost ?? "0.0.0.0");
}

/** Throws a usage error that names the packages that serving needs and that are not installed. */
export async function checkHealthPackages(): Promise<void> {
  try {
    await loadHono("--health-port", defaultRuntime());
  } catch (error) {
    throw usageError(messageOf(error), { cause: error });
  }
}

/** Listens on the port for a moment. */
export function checkPort(port: number, host: string): Promise<void> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      const message = `Cannot listen on ${host}:${port}: ${messageOf(error)}`;
      reject(new CliError("failed", message, { cause: error }));
    });
    server.listen(port, host, () => server.close(() => resolve()));
  });
}
