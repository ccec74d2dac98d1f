// A shell that is told the commands of console blocks, one after the other.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import process from "node:process";
import { type Command, difference, interruptsDue } from "./console_blocks.ts";

/** Where and how the commands run. */
export interface SessionOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** How long one command may take. @default {60_000} */
  readonly timeoutMs?: number;
}

/** How a command ended. */
interface Ended {
  readonly output: string;
  readonly code: number;
  /** How often Ctrl+C was pressed. */
  readonly pressed: number;
  /** Why it did not end by itself. */
  readonly trouble: string | undefined;
}

/** Ends a command's output; no program prints it. */
const END = /\n␄(\d+)\n/;

/**
 * One bash for many commands: what they set, where they went and what they left in the background
 * stays for the next ones. It leads a process group, so a Ctrl+C reaches what a terminal would.
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
    this.#shell.stdin.on("error", () => {}); // it has ended: the command at hand tells so
    const take = (chunk: string) => {
      this.#output += chunk;
      this.#look();
    };
    this.#shell.stdout.setEncoding("utf8").on("data", take);
    this.#shell.stderr.setEncoding("utf8").on("data", take);
    // Both outputs in the order in which they are written; Ctrl+C ends the command, not the shell.
    this.#shell.stdin.write("exec 2>&1; trap : INT\n");
  }

  /** Runs a command; rejects with what differs from what is expected of it. */
  async run(command: Command): Promise<void> {
    const ended = this.#ended(command);
    this.#shell.stdin.write(
      `{ ${command.text}\n} </dev/null; code=$?; printf '\\n␄%s\\n' $code; (exit $code)\n`,
    );
    const { output, code, pressed, trouble } = await ended;
    const different = difference(command.expected, output);
    // npm and npx say 130 after a Ctrl+C, however well the program has ended.
    const fine = code === 0 || command.mayFail || (pressed > 0 && code === 130);
    const failed = fine ? undefined : `it ended with code ${code}`;
    const wrong = trouble ?? failed;
    if (wrong === undefined && different === undefined) return;
    throw new Error(
      [`$ ${command.text}`, different ?? output, ...(wrong ? [`(${wrong})`] : [])].join("\n"),
    );
  }

  /** Ends the shell with all that it started. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal("SIGKILL");
    await this.#closed;
  }

  #ended({ expected }: Command): Promise<Ended> {
    let pressed = 0;
    return new Promise((resolve) => {
      const give = (output: string, code: number, trouble?: string) => {
        clearTimeout(limit);
        this.#look = () => {};
        resolve({ output, code, pressed, trouble });
      };
      const limit = setTimeout(
        () => give(this.#output, 124, `it was not done after ${this.#timeoutMs} ms`),
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
      // All of them have ended in the meantime: what was wanted.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
