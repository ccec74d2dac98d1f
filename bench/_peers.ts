// The packages that the benchmarks compare with. They are in a package of their own, which is installed
// when a part first needs it, so that contributors do not have to install them.

import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { delimiter, dirname, join, sep } from "node:path";
import process from "node:process";
import { run } from "../tools/process.ts";
import { root } from "../tools/runtimes.ts";

/** The folder of a package, or why there is none. */
export type Peer = { readonly folder: string } | { readonly missing: string };

/** A program of the machine, or why it cannot be used. */
export type OwnNode = { readonly program: string; readonly version: string } | {
  readonly missing: string;
};

const folder = join(root, "bench", "peers");
const INSTALL_LIMIT_MS = 60_000;
/** The time limit of compiling a native package. */
const BUILD_LIMIT_MS = 240_000;

let installed: Promise<Peer> | undefined;

/** Installs all peers unless they are installed. Runs none of their install scripts. */
export function takePeers(): Promise<Peer> {
  return installed ??= install();
}

async function install(): Promise<Peer> {
  if (await isUpToDate()) return { folder };
  const { code, output } = await run("npm", ["ci", "--ignore-scripts"], {
    cwd: folder,
    timeoutMs: INSTALL_LIMIT_MS,
  }).catch((error) => ({ code: 1, output: String(error) }));
  return code === 0 ? { folder } : { missing: `npm ci in bench/peers: ${lastLine(output)}` };
}

async function isUpToDate(): Promise<boolean> {
  const marker = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(marker)) return false;
  const [wanted, there] = await Promise.all([
    stat(join(folder, "package-lock.json")),
    stat(marker),
  ]);
  return there.mtimeMs >= wanted.mtimeMs;
}

/**
 * Finds the machine's own Node, which is not that of the devDependencies, with a `better-sqlite3` for it.
 * npm compiles addons for the Node that runs it.
 */
export async function ownNodeWithBetterSqlite3(): Promise<OwnNode> {
  const program = ownNode();
  if (program === undefined) return { missing: "the machine has no Node of its own" };
  const peers = await takePeers();
  if ("missing" in peers) return peers;
  const options = {
    cwd: folder,
    env: { PATH: [dirname(program), process.env["PATH"] ?? ""].join(delimiter) },
  };
  const opens = ["-p", 'new (require("better-sqlite3"))(":memory:"), process.version'];
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
  return { program, version: output.trim() };
}

/** Finds Node on the PATH behind the folders of packages, which npm puts first. */
function ownNode(): string | undefined {
  const name = process.platform === "win32" ? "node.exe" : "node";
  return (process.env["PATH"] ?? "").split(delimiter)
    .filter((entry) => entry !== "" && !entry.split(sep).includes("node_modules"))
    .map((entry) => join(entry, name))
    .find((path) => existsSync(path));
}

/** The version of an installed peer. */
export async function peerVersion(name: string): Promise<string> {
  const manifest = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
  return `${name} ${(JSON.parse(manifest) as { version: string }).version}`;
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
