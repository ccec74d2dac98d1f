// Where a reader tries things out: an empty project that has the package, and a fresh clone.

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
import { delimiter, join } from "node:path";
import process from "node:process";
import { assertEquals } from "@std/assert";
import { PAGE_MODULE } from "../../tools/page.ts";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, type RuntimeName } from "../../tools/runtimes.ts";
import { type Consumer, makeConsumer } from "../package/consumer.ts";

const RUNTIMES: readonly RuntimeName[] = ["node", "bun", "deno"];

/** How the command is started on each runtime, when its file follows. */
const START: Readonly<Record<RuntimeName, string>> = {
  node: "node",
  bun: "bun --bun run",
  deno: "deno run -A --unstable-kv",
};

/** A folder to work in, and the environment of its shell. */
export interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The package is packed and installed once; every place made of it is new. */
export class Desk implements Disposable {
  readonly #consumer: Consumer;

  private constructor(consumer: Consumer) {
    this.#consumer = consumer;
  }

  static async make(): Promise<Desk> {
    const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const installed = (peer: string) => existsSync(join(root, "node_modules", peer));
    const consumer = await makeConsumer(Object.keys(peerDependencies).filter(installed));
    const bin = join(consumer.folder, "bin");
    await mkdir(bin);
    for (const name of RUNTIMES) await symlink(runtimeBinary(name), join(bin, name));
    await symlink(runtimeBinary("bun"), join(bin, "bunx"));
    return new Desk(consumer);
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
    this.#consumer[Symbol.dispose]();
    rmSync(this.#consumer.folder, { recursive: true, force: true });
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
    const path = (process.env["PATH"] ?? "").split(delimiter)
      .filter((folder) => !folder.includes("node_modules"));
    return {
      ...Object.fromEntries(inherited),
      PATH: [...bins, join(this.#consumer.folder, "bin"), ...path].join(delimiter),
      NO_COLOR: "1",
      npm_config_loglevel: "error",
      npm_config_update_notifier: "false",
    };
  }
}
