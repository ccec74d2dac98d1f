import { defaultRuntime } from "../src/runtime.ts";
import { usageError } from "./_errors.ts";

/** Not a literal: an optional peer need not be there when imports are checked. */
const NODE_SERVER: string = "@hono/node-server";

/** Refuses `--health-port` where the packages it needs are not installed. */
export async function checkHealthPackages(): Promise<void> {
  await check("hono", () => import("../src/health/mod.ts"));
  if (defaultRuntime().name === "node") await check(NODE_SERVER, () => import(NODE_SERVER));
}

async function check(name: string, load: () => Promise<unknown>): Promise<void> {
  try {
    await load();
  } catch (error) {
    throw usageError(
      `--health-port needs the package ${name}, which cannot be loaded: install it ` +
        `(npm install ${name}, deno add npm:${name}, bun add ${name})`,
      { cause: error },
    );
  }
}
