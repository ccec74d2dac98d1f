// Runs child processes with a time limit, and kills their process groups.

import { type ChildProcess, spawn } from "node:child_process";
import { constants, setPriority } from "node:os";
import process from "node:process";
import { binFolder, root } from "./runtimes.ts";

/** Options of {@linkcode run}. */
export interface RunOptions {
  /** @default the root of the repository */
  readonly cwd?: string;
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** @default {120_000} */
  readonly timeoutMs?: number;
  /** Whether the program leaves the processor to all others. @default {false} */
  readonly lowPriority?: boolean;
}

/** The result of a child process. */
export interface RunResult {
  /** The exit code; 124 after the time limit, as with timeout(1). */
  readonly code: number;
  /** Both output streams, in the order of arrival. */
  readonly output: string;
  readonly ms: number;
}

const posix = process.platform !== "win32";
const alive = new Set<ChildProcess>();

// Children lead their own process groups, so Ctrl+C in the terminal does not reach them.
process.on("exit", () => alive.forEach(killTree));

/** Runs a program and collects its output. Rejects only when the program cannot be started. */
export function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const { cwd = root, env = {}, timeoutMs = 120_000, lowPriority = false } = options;
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...environment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: posix,
    });
    if (lowPriority && child.pid !== undefined) {
      setPriority(child.pid, constants.priority.PRIORITY_LOW);
    }
    alive.add(child);
    let output = "";
    let timedOut = false;
    const collect = (chunk: string) => output += chunk;
    child.stdout.setEncoding("utf8").on("data", collect);
    child.stderr.setEncoding("utf8").on("data", collect);
    const limit = setTimeout(() => {
      timedOut = true;
      output += `\n${program} was killed after its limit of ${timeoutMs} ms\n`;
      killTree(child);
    }, timeoutMs);
    child.on("error", (error) => {
      clearTimeout(limit);
      alive.delete(child);
      reject(error);
    });
    child.on("close", (code) => {
      clearTimeout(limit);
      alive.delete(child);
      resolve({ code: timedOut ? 124 : code ?? 1, output, ms: performance.now() - started });
    });
  });
}

function environment(): NodeJS.ProcessEnv {
  // FORCE_COLOR overrides NO_COLOR, and Node refuses to run tests with NODE_TEST_CONTEXT.
  const { FORCE_COLOR: _color, NODE_TEST_CONTEXT: _context, ...inherited } = process.env;
  const path = [binFolder, inherited["PATH"] ?? ""].join(posix ? ":" : ";");
  return { ...inherited, PATH: path, NO_COLOR: "1" };
}

function killTree(child: ChildProcess): void {
  try {
    if (posix && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    else child.kill("SIGKILL");
  } catch (error) {
    // ESRCH: the process group has already ended.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
