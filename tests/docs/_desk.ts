// Where a reader tries things out: an empty folder with a terminal, an empty project that has the
// package, and a fresh clone.

import { existsSync, readFileSync, rmSync } from "node:fs";
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { PAGE_MODULE } from "../../tools/page.ts";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, type RuntimeName } from "../../tools/runtimes.ts";
import { type Consumer, makeConsumer } from "../package/consumer.ts";
import { LocalRegistry } from "./_registry.ts";

const RUNTIMES: readonly RuntimeName[] = ["node", "bun", "deno"];

/** The folders with the programs of the machine. */
const PATH = (process.env["PATH"] ?? "").split(delimiter)
  .filter((folder) => !folder.includes("node_modules"));

/** How the command is started on each runtime, when its file follows. */
const START: Readonly<Record<RuntimeName, string>> = {
  node: "node",
  bun: "bun --bun run",
  deno: "deno run -A --unstable-kv",
};

/** What a runtime brings with it. */
const PROGRAMS: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: ["node", "npm", "npx"],
  bun: ["bun", "bunx"],
  deno: ["deno"],
};

/** The other programs of a machine that has one runtime only. */
const UTILITIES = ["script", "bash", "sh", "env", "stty", "cp", "mkdir", "curl"];

/** A folder to work in, and its shell. */
export interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True if the shell runs in a terminal. */
  readonly terminal?: boolean;
}

/** The package is packed and installed once; every place made of it is new. */
export class Desk implements Disposable {
  readonly #consumer: Consumer;
  readonly #outside: string[] = [];
  #registry: Promise<LocalRegistry> | undefined;

  private constructor(consumer: Consumer) {
    this.#consumer = consumer;
  }

  static async make(): Promise<Desk> {
    const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const installed = (peer: string) => existsSync(join(root, "node_modules", peer));
    const consumer = await makeConsumer(Object.keys(peerDependencies).filter(installed));
    const bin = join(consumer.folder, "bin");
    await mkdir(bin);
    for (const name of RUNTIMES) await link(PROGRAMS[name], bin);
    return new Desk(consumer);
  }

  /** An empty folder on a machine that has this runtime only, with both registries. */
  async empty(runtime: RuntimeName): Promise<Place> {
    const { folder, tarball } = this.#consumer;
    const registry = await (this.#registry ??= LocalRegistry.open(folder, tarball));
    // Not inside the consumer's folder: all runtimes would find the package that is installed there.
    const cwd = await mkdtemp(join(tmpdir(), "lastcall-empty-"));
    this.#outside.push(cwd);
    const [home, bin] = [await this.#folder("home-"), await this.#folder("bin-")];
    await link([...PROGRAMS[runtime], ...UTILITIES], bin);
    // All caches are in the home folder.
    const env = { ...registry.env, HOME: home, PATH: bin, TERM: "xterm", NO_COLOR: "1" };
    return { cwd, env, terminal: true };
  }

  /** An empty project with the package, in which `lastcall` runs on this runtime. */
  async project(runtime: RuntimeName): Promise<Place> {
    const cwd = await this.#folder("project-");
    await writeFile(join(cwd, "package.json"), '{ "private": true, "type": "module" }\n');
    await symlink(join(this.#consumer.folder, "node_modules"), join(cwd, "node_modules"), "dir");
    const bin = await this.#folder("bin-");
    const file = join(cwd, "node_modules", "lastcall", "dist", "cli", "bin.js");
    await writeFile(join(bin, "lastcall"), `#!/bin/sh\nexec ${START[runtime]} '${file}' "$@"\n`);
    await chmod(join(bin, "lastcall"), 0o755);
    return { cwd, env: this.#environment(bin) };
  }

  /** A clone of what is committed, as after `npm ci`. */
  async clone(): Promise<Place> {
    const cwd = await this.#folder("clone-");
    const { code, output } = await run("git", ["clone", "--quiet", root, cwd]);
    assertEquals(code, 0, output);
    // Linked one by one: an install in there would only remove the links.
    await mkdir(join(cwd, "node_modules"));
    for (const name of await readdir(join(root, "node_modules"))) {
      await symlink(join(root, "node_modules", name), join(cwd, "node_modules", name));
    }
    // Every install makes it.
    await copyFile(join(root, PAGE_MODULE), join(cwd, PAGE_MODULE));
    // Older than what is installed, or `npm start` would install it again.
    await utimes(join(cwd, "package-lock.json"), 0, 0);
    return { cwd, env: this.#environment() };
  }

  [Symbol.dispose](): void {
    void this.#registry?.then((it) => it[Symbol.dispose]());
    this.#consumer[Symbol.dispose]();
    for (const folder of [this.#consumer.folder, ...this.#outside]) {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #folder(prefix: string): Promise<string> {
    return mkdtemp(join(this.#consumer.folder, prefix));
  }

  /** What a new terminal has: the runtimes, no colours, and nothing of the test that runs. */
  #environment(...bins: readonly string[]): Record<string, string | undefined> {
    const inherited = Object.entries(process.env).filter(([name]) =>
      !/^(FORCE_COLOR|NODE_TEST_CONTEXT|LASTCALL_|INIT_CWD|npm_(?!config_)|npm_config_local_)/
        .test(name)
    );
    return {
      ...Object.fromEntries(inherited),
      PATH: [...bins, join(this.#consumer.folder, "bin"), ...PATH].join(delimiter),
      NO_COLOR: "1",
      npm_config_loglevel: "error",
      npm_config_update_notifier: "false",
    };
  }
}

/** Links programs into a folder: the runtimes of the devDependencies, everything else of the machine. */
async function link(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    const own = RUNTIMES.find((runtime) => name === runtime || name === `${runtime}x`);
    const target = own === undefined ? onMachine(name) : runtimeBinary(own);
    await symlink(target, join(folder, name));
  }
}

function onMachine(name: string): string {
  const folder = PATH.find((it) => existsSync(join(it, name)));
  assert(folder, `this machine has no ${name}`);
  return join(folder, name);
}
