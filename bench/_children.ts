// The processes that are measured. Each one ends: by itself, by the signal it waits for, or with us.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import type { Readable } from "node:stream";
import { run } from "../tools/process.ts";
import { root, runtimeBinary, type RuntimeName } from "../tools/runtimes.ts";

type Child = ChildProcessByStdio<null, Readable, Readable>;

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

const FIXTURE_LIMIT_MS = 20_000;
const READY_LIMIT_MS = 10_000;
const EXIT_LIMIT_MS = 10_000;

const alive = new Set<Child>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** How a fixture is run to its end. */
export interface ResultOptions {
  /** Whether it may ask for a collection of garbage. @default {false} */
  readonly gc?: boolean;
  /** Another program than the runtime of the devDependencies. */
  readonly program?: string;
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
  const { gc = false, program = runtimeBinary(runtime), timeoutMs = FIXTURE_LIMIT_MS } = options;
  const line = commandLine(runtime, fixture, args, gc ? WITH_GC[runtime] : []);
  const { code, output } = await run(program, line, { timeoutMs });
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
