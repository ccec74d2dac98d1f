// Runs the commands of console blocks in one shell.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import process from "node:process";
import { type Command, difference, interruptsDue } from "./console_blocks.ts";

/** Options of {@linkcode ConsoleSession}. */
export interface SessionOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The time limit of one command. @default {60_000} */
  readonly timeoutMs?: number;
}

/** How a command ended. */
interface Ended {
  readonly output: string;
  readonly code: number;
  /** The number of Ctrl+C presses. */
  readonly pressed: number;
  /** Why the command did not end normally. */
  readonly failure: string | undefined;
}

/** Marks the end of a command's output, with its exit code. */
const END = /\n␄(\d+)\n/;

/**
 * One bash for all commands, so that variables, the current folder and background jobs persist. It
 * leads a process group, so that Ctrl+C reaches the same processes as in a terminal.
 */
export class ConsoleSession implements AsyncDisposable {
  readonly #shell: ChildProcessWithoutNullStreams;
  readonly #timeoutMs: number;
  readonly #closed: Promise<void>;
  #output = "";
  #look: () => void = () => {};

  constructor({ cwd, env, timeoutMs = 60_000 }: SessionOptions) {
    this.#timeoutMs = timeoutMs;
    this.#shell = spawn("bash", ["--noprofile", "--norc"], { cwd, env, detached: true });
    this.#closed = new Promise((resolve) => this.#shell.on("close", () => resolve()));
    this.#shell.stdin.on("error", () => {}); // bash has ended: the current command reports it
    const take = (chunk: string) => {
      this.#output += chunk;
      this.#look();
    };
    this.#shell.stdout.setEncoding("utf8").on("data", take);
    this.#shell.stderr.setEncoding("utf8").on("data", take);
    // Merges both outputs in order, and keeps the shell alive on Ctrl+C.
    this.#shell.stdin.write("exec 2>&1; trap : INT\n");
  }

  /** Runs a command. Rejects with a diff when its output or its exit code is not as expected. */
  async run(command: Command): Promise<void> {
    const ended = this.#ended(command);
    this.#shell.stdin.write(
      `{ ${command.text}\n} </dev/null; code=$?; printf '\\n␄%s\\n' $code; (exit $code)\n`,
    );
    const { output, code, pressed, failure } = await ended;
    const different = difference(command.expected, output);
    // npm and npx exit with 130 after Ctrl+C, whatever the program's exit code.
    const fine = code === 0 || command.mayFail || (pressed > 0 && code === 130);
    const failed = fine ? undefined : `exit code ${code}`;
    const wrong = failure ?? failed;
    if (wrong === undefined && different === undefined) return;
    throw new Error(
      [`$ ${command.text}`, different ?? output, ...(wrong ? [`(${wrong})`] : [])].join("\n"),
    );
  }

  /** Kills the shell and all processes it has started. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal("SIGKILL");
    await this.#closed;
  }

  #ended({ expected }: Command): Promise<Ended> {
    let pressed = 0;
    return new Promise((resolve) => {
      const give = (output: string, code: number, failure?: string) => {
        clearTimeout(limit);
        this.#look = () => {};
        resolve({ output, code, pressed, failure });
      };
      const limit = setTimeout(
        () => give(this.#output, 124, `not done after ${this.#timeoutMs} ms`),
        this.#timeoutMs,
      );
      void this.#closed.then(() => give(this.#output, 1, "the shell ended"));
      this.#look = () => {
        const end = END.exec(this.#output);
        if (end !== null) {
          const output = this.#output.slice(0, end.index);
          this.#output = this.#output.slice(end.index + end[0].length);
          return give(output, Number(end[1]));
        }
        for (; pressed < interruptsDue(expected, this.#output); pressed++) this.#signal("SIGINT");
      };
    });
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      if (this.#shell.pid !== undefined) process.kill(-this.#shell.pid, signal);
    } catch (error) {
      // ESRCH: the processes have already ended.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
