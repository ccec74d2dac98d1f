// The packages that the benchmarks compare with. They are in a package of their own, which is installed
// when a part first needs it, so that contributors do not have to install them.

import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../tools/process.ts";
import { root } from "../tools/runtimes.ts";

/** The folder of a package, or why there is none. */
export type Peer = { readonly folder: string } | { readonly missing: string };

const folder = join(root, "bench", "peers");
const INSTALL_LIMIT_MS = 240_000;

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

/** The version of an installed peer. */
export async function peerVersion(name: string): Promise<string> {
  const manifest = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
  return `${name} ${(JSON.parse(manifest) as { version: string }).version}`;
}

/** The last line of an output. */
export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
