// A project of somebody who installed the package from npm.

import { existsSync, readFileSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, realpath, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { assert } from "@std/assert";
import { run, type RunOptions } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";

/** The optional peers that subpaths import when they are loaded, as their users have them. */
const IMPORTED_PEERS = ["hono", "croner"];

/** The project and what it was installed from. */
export interface Consumer extends Disposable {
  readonly folder: string;
  readonly tarball: string;
  /** Writes files into the project. */
  write(files: Readonly<Record<string, string>>): Promise<void>;
  /** Runs a program in the project and returns its output; fails unless the exit code is 0. */
  run(program: string, ...args: readonly string[]): Promise<string>;
}

/** Packs the package and installs the tarball into an empty project, without any network. */
export async function makeConsumer(peers: readonly string[] = IMPORTED_PEERS): Promise<Consumer> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "lastcall-consumer-")));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const tarball = await packInto(folder);
    await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
    const quiet = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund"];
    await succeed("npm", ["install", ...quiet, tarball], { cwd: folder });
    for (const peer of peers) {
      const link = join(folder, "node_modules", peer);
      await mkdir(dirname(link), { recursive: true });
      await symlink(join(root, "node_modules", peer), link, "dir");
    }
    return {
      folder,
      tarball,
      write: async (files) => {
        for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
      },
      run: (program, ...args) => succeed(program, args, { cwd: folder }),
      [Symbol.dispose]: remove,
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Packs the package into a folder and returns the path of the tarball. */
export async function packInto(folder: string): Promise<string> {
  const packed = await succeed("npm", ["pack", "--pack-destination", folder]);
  const tarball = packed.trimEnd().split("\n").find((line) => /^lastcall-.*\.tgz$/.test(line));
  assert(tarball, `npm pack named no tarball:\n${packed}`);
  return join(folder, tarball);
}

async function succeed(program: string, args: readonly string[], options?: RunOptions) {
  const { code, output } = await run(program, args, options);
  assert(code === 0, `${program} ${args.join(" ")} ended with code ${code}:\n${output}`);
  return output;
}

/** The specifiers of everything that package.json exports. */
export function exportedSpecifiers(): readonly string[] {
  const { name, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.keys(exports).map((subpath) => subpath.replace(/^\./, name));
}

/** The Node of this machine, when it is another than the one in the devDependencies. */
export async function machineNode(): Promise<{ path: string; version: string } | undefined> {
  const name = process.platform === "win32" ? "node.exe" : "node";
  const path = (process.env["PATH"] ?? "").split(delimiter)
    .filter((folder) => !folder.includes("node_modules"))
    .map((folder) => join(folder, name))
    .find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  const version = (await succeed(path, ["--version"])).trim();
  const same = version === (await succeed(runtimeBinary("node"), ["--version"])).trim();
  return same ? undefined : { path, version };
}
