// The processes that are measured. Each one ends: by itself, by the signal it waits for, or with us.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { run } from "../tools/process.ts";
import { root, runtimeBinary, type RuntimeName } from "../tools/runtimes.ts";
import type { Opening, Turn } from "./fixtures/_contender.ts";
import type { Task } from "./fixtures/contender.ts";

type Child = ChildProcessByStdio<Writable | null, Readable, Readable>;

const RUN: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: ["run"],
  deno: ["run", "--allow-all", "--no-check", "--config", join(root, "deno.json")],
};

/** Lets a fixture collect garbage when it wants to; Bun's do so anyway. */
const WITH_GC: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: ["--expose-gc"],
  bun: [],
  deno: ["--v8-flags=--expose-gc"],
};

/** The flags of contenders. Deno KV is unstable. */
const CONTENDER_FLAGS: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: [],
  deno: ["--unstable-kv"],
};

const FIXTURE_LIMIT_MS = 20_000;
const READY_LIMIT_MS = 10_000;
const EXIT_LIMIT_MS = 10_000;
/** The time limits for opening a contender, for a turn, and for a turn that first sends a backlog. */
const OPEN_LIMIT_MS = 20_000;
const TURN_LIMIT_MS = 30_000;
const FILL_LIMIT_MS = 180_000;

const alive = new Set<Child>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** How a fixture is run to its end. */
export interface ResultOptions {
  /** Whether it may ask for a collection of garbage. @default {false} */
  readonly gc?: boolean;
  /** @default {20_000} */
  readonly timeoutMs?: number;
}

/** Runs a fixture to its end; what it prints last is JSON. */
export async function resultOf<T>(
  runtime: RuntimeName,
  fixture: string,
  args: readonly string[],
  options: ResultOptions = {},
): Promise<T> {
  const { gc = false, timeoutMs = FIXTURE_LIMIT_MS } = options;
  const line = commandLine(runtime, fixture, args, gc ? WITH_GC[runtime] : []);
  const { code, output } = await run(runtimeBinary(runtime), line, { timeoutMs });
  if (code !== 0) throw new Error(`${fixture} ended with ${code} on ${runtime}:\n${output}`);
  return JSON.parse(output.trimEnd().split("\n").at(-1) ?? "");
}

/** A process that waits for its signal. */
export interface Waiting {
  /** Sends SIGTERM; resolves with the milliseconds until the process had ended. */
  stop(): Promise<number>;
}

/** Starts a fixture and waits until it has printed `ready`. */
export async function startWaiting(
  runtime: RuntimeName,
  fixture: string,
  args: readonly string[],
): Promise<Waiting> {
  const child: Child = spawn(runtimeBinary(runtime), commandLine(runtime, fixture, args), {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  alive.add(child);
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => errors += text);
  const exited = once(child, "exit").finally(() => alive.delete(child));
  const what = `${fixture} ${args.join(" ")} on ${runtime}`;
  const ready = once(child.stdout, "data").then(() => "ready");
  if (await within(READY_LIMIT_MS, child, [ready, exited]) !== "ready") {
    throw new Error(`${what} did not get ready:\n${errors}`);
  }
  return {
    async stop() {
      const began = performance.now();
      let ms = 0;
      child.once("exit", () => ms = performance.now() - began);
      child.kill("SIGTERM");
      const [code] = await within(EXIT_LIMIT_MS, child, [exited]) as [number | null];
      if (code !== 0) throw new Error(`${what} ended with ${code ?? "a signal"}:\n${errors}`);
      return ms;
    },
  };
}

/** A program other than the runtime of the devDependencies, and the script that it runs. */
type Own = { readonly program: string; readonly script: string };

/** A contender process that performs tasks until `end` is called. */
export class ContenderProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #lines: AsyncIterator<string>;
  readonly #exited: Promise<unknown>;
  #errors = "";

  constructor(runtime: RuntimeName, module: string, opening: Opening, own?: Own) {
    const arg = JSON.stringify({ module, ...opening });
    const line = own === undefined
      ? commandLine(runtime, "contender.ts", [arg], CONTENDER_FLAGS[runtime])
      : [own.script, arg];
    const child = spawn(own?.program ?? runtimeBinary(runtime), line, {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    alive.add(child);
    child.stdin.on("error", () => {}); // the process ended, and the next task reports that
    child.stderr.setEncoding("utf8").on("data", (text) => this.#errors += text);
    this.#exited = once(child, "exit").finally(() => alive.delete(child));
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Resolves with the measurements of a turn; rejects when the process failed or took too long. */
  async perform(task: Task): Promise<Turn> {
    this.#child.stdin.write(`${JSON.stringify(task)}\n`);
    return await this.answer(task.task === "steady" ? FILL_LIMIT_MS : TURN_LIMIT_MS);
  }

  /** Resolves with the next answer. */
  async answer(limitMs: number): Promise<Turn> {
    let late = false;
    const limit = setTimeout(() => {
      late = true;
      this.#child.kill("SIGKILL");
    }, limitMs);
    try {
      for (;;) {
        const { done, value } = await this.#lines.next();
        if (late) throw new Error(`no answer within ${limitMs / 1_000} s`);
        if (done) throw new Error(errorLine(this.#errors));
        if (value.startsWith("@")) return JSON.parse(value.slice(1));
      }
    } finally {
      clearTimeout(limit);
    }
  }

  /** Ends the process, and kills it if it does not end in time. */
  async end(): Promise<void> {
    this.#child.stdin.end();
    await within(EXIT_LIMIT_MS, this.#child, [this.#exited]);
  }
}

/** Starts a contender and waits until it is open. */
export async function startContender(
  runtime: RuntimeName,
  module: string,
  opening: Opening,
  own?: Own,
): Promise<ContenderProcess> {
  const contender = new ContenderProcess(runtime, module, opening, own);
  try {
    await contender.answer(OPEN_LIMIT_MS);
    return contender;
  } catch (error) {
    await contender.end();
    throw error;
  }
}

/** Returns the line that names the error in the output of a process. */
function errorLine(output: string): string {
  const lines = output.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return lines.find((line) => /^(error|\w*Error)\b.*:/.test(line)) ?? lines.at(-1) ??
    "the process ended";
}

function commandLine(
  runtime: RuntimeName,
  fixture: string,
  args: readonly string[],
  flags: readonly string[] = [],
): string[] {
  return [...RUN[runtime], ...flags, join(root, "bench", "fixtures", fixture), ...args];
}

/** The first of these promises; a child that takes too long is ended, and `exited` settles then. */
async function within(
  limitMs: number,
  child: Child,
  outcomes: readonly Promise<unknown>[],
): Promise<unknown> {
  const limit = setTimeout(() => child.kill("SIGKILL"), limitMs);
  try {
    return await Promise.race(outcomes);
  } finally {
    clearTimeout(limit);
  }
}
