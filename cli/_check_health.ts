import { createServer } from "node:net";
import { LoopGroup } from "../mod.ts";
import { defaultRuntime } from "../src/runtime.ts";
import { CliError, textOf, usageError } from "./_errors.ts";

/** Not a literal: an optional peer need not be there when imports are checked. */
const NODE_SERVER: string = "@hono/node-server";

/** What was asked for. */
export interface HealthPlan {
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/** Refuses a port where nothing can listen, for want of packages too, and a token that is none. */
export async function checkHealth({ healthPort, healthHost, token }: HealthPlan): Promise<void> {
  if (healthPort === undefined) return;
  const { healthApp } = await loadHealth();
  try {
    healthApp(new LoopGroup([]), token === undefined ? {} : { token });
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
  await checkPort(healthPort, healthHost ?? "0.0.0.0");
}

/** Loads what answers probes, or says which package is missing. */
export async function loadHealth(): Promise<typeof import("../src/health/mod.ts")> {
  const health = await load("hono", () => import("../src/health/mod.ts"));
  if (defaultRuntime().name === "node") await load(NODE_SERVER, () => import(NODE_SERVER));
  return health;
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

async function load<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    throw usageError(
      `--health-port needs the package ${name}, which cannot be loaded: install it ` +
        `(npm install ${name}, deno add npm:${name}, bun add ${name})`,
      { cause: error },
    );
  }
}
