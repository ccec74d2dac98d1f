// The machine's own Node, as opposed to that of the devDependencies. npm compiles addons for the Node that runs it,
// so `better-sqlite3` works only there.

import { existsSync } from "node:fs";
import { delimiter, dirname, join, sep } from "node:path";
import process from "node:process";
import { build } from "esbuild";
import { run } from "../tools/process.ts";
import { root } from "../tools/runtimes.ts";
import { lastLine, takePeers } from "./_peers.ts";

/** The program and a bundle of `contender.ts`, or why there is none. */
export type OwnNode = { readonly program: string; readonly script: string } | {
  readonly missing: string;
};

/** The time limit of compiling a native package. */
const BUILD_LIMIT_MS = 240_000;

let taken: Promise<OwnNode> | undefined;

/** Finds the machine's own Node, compiles `better-sqlite3` for it, and bundles contenders into a folder. */
export function takeOwnNode(folder: string): Promise<OwnNode> {
  return taken ??= find(folder);
}

async function find(folder: string): Promise<OwnNode> {
  const program = ownNode();
  if (program === undefined) return { missing: "no Node besides that of the devDependencies" };
  const peers = await takePeers();
  if ("missing" in peers) return peers;
  const options = {
    cwd: peers.folder,
    env: { PATH: [dirname(program), process.env["PATH"] ?? ""].join(delimiter) },
  };
  const opens = ["-e", 'new (require("better-sqlite3"))(":memory:")'];
  let { code, output } = await run(program, opens, options);
  if (code !== 0) {
    console.log("\n  building better-sqlite3 for the machine's own Node, once …");
    const built = await run("npm", ["rebuild", "better-sqlite3"], {
      ...options,
      timeoutMs: BUILD_LIMIT_MS,
    });
    if (built.code !== 0) return { missing: `npm rebuild: ${lastLine(built.output)}` };
    ({ code, output } = await run(program, opens, options));
  }
  if (code !== 0) return { missing: `better-sqlite3 does not load: ${lastLine(output)}` };
  // An older Node cannot run TypeScript.
  const script = join(folder, "contender.mjs");
  await build({
    entryPoints: [join(root, "bench", "fixtures", "contender.ts")],
    outfile: script,
    bundle: true,
    format: "esm",
    platform: "node",
    packages: "external",
  });
  return { program, script };
}

/** Finds Node on the PATH, after the package folders that npm puts first. */
function ownNode(): string | undefined {
  const name = process.platform === "win32" ? "node.exe" : "node";
  return (process.env["PATH"] ?? "").split(delimiter)
    .filter((entry) => entry !== "" && !entry.split(sep).includes("node_modules"))
    .map((entry) => join(entry, name))
    .find((path) => existsSync(path));
}
