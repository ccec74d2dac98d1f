import { LoopGroup } from "../mod.ts";
import { defaultRuntime } from "../src/runtime.ts";
import { textOf, usageError } from "./_errors.ts";

/** Not a literal: an optional peer need not be there when imports are checked. */
const NODE_SERVER: string = "@hono/node-server";

/** Refuses `--health-port` where its packages are not installed, and a token that is none. */
export async function checkHealth(token?: string): Promise<void> {
  const { healthApp } = await load("hono", () => import("../src/health/mod.ts"));
  if (defaultRuntime().name === "node") await load(NODE_SERVER, () => import(NODE_SERVER));
  if (token === undefined) return;
  try {
    healthApp(new LoopGroup([]), { token });
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
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
