// The versions of the measured software.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../tools/process.ts";
import { root, runtimeBinary } from "../tools/runtimes.ts";
import { peerVersion } from "./_peers.ts";

/** Returns the versions of lastcall, the runtimes, some servers and some packages of the peers. */
export async function versionsOf(
  servers: readonly string[],
  packages: readonly string[],
): Promise<Record<string, string>> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const runtimes = await Promise.all((["node", "bun", "deno"] as const).map(async (name) => {
    const { output } = await run(runtimeBinary(name), ["--version"]);
    return [name, /\d+(\.\d+)+/.exec(output)?.[0] ?? "unknown"];
  }));
  // A peer that is not installed counts as failed, and the page says so.
  const others = (await Promise.allSettled([...new Set(packages)].map(peerVersion)))
    .flatMap((it) => it.status === "fulfilled" ? [it.value] : []);
  const pairs = [...servers, ...others].map((it) => it.split(" "));
  return Object.fromEntries([["lastcall", version], ...runtimes, ...pairs]);
}
