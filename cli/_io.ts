// What a command sees of the world around it. Tests pass their own.

import process from "node:process";
import { createInterface } from "node:readline";
import type { WriteStream } from "node:tty";
import type { LoopGroupOptions } from "../mod.ts";

/** One of the two streams that a command writes to. */
export interface Sink {
  /** Writes a text as it is. */
  write(text: string): void;
  /** Whether a person looks at it; false where it is a file or a pipe. */
  readonly interactive: boolean;
  /** How much fits into a line. */
  readonly columns: number;
  /** How many lines it has, where that is known. */
  readonly rows?: number;
}

/** Everything a command reads and writes. */
export interface Io {
  /** For results. */
  readonly out: Sink;
  /** For everything that is not the result: errors, questions, progress. */
  readonly err: Sink;
  /** The environment variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a person types at standard input. */
  readonly typed: boolean;
  /** The lines of standard input, as they come. */
  lines(): AsyncIterable<string>;
  /** Asks a person and resolves to what was typed; undefined when there was nothing more to read. */
  ask(question: string): Promise<string | undefined>;
  /** What `run` and `demo` run on, and where signals come from. @default {this program, with a watchdog} */
  readonly group?: Pick<LoopGroupOptions, "runtime" | "watchdogThresholdMs">;
  /** Resolves when all that was written has been taken. */
  flush(): Promise<void>;
}

/** The streams of this process. */
export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process;
  // Whoever reads only the beginning, as `head` does, has what it wanted.
  for (const stream of [stdout, stderr]) {
    stream.on("error", (error: { code?: string }) => process.exit(error.code === "EPIPE" ? 0 : 1));
  }
  return {
    out: sink(stdout),
    err: sink(stderr),
    env,
    typed: stdin.isTTY === true,
    lines: () => createInterface({ input: stdin, crlfDelay: Infinity }),
    ask,
    flush: async () => {
      for (const stream of [stdout, stderr]) {
        await new Promise<void>((resolve) => stream.write("", () => resolve()));
      }
    },
  };
}

function sink(stream: WriteStream): Sink {
  return {
    write: (text) => void stream.write(text),
    get interactive() {
      return stream.isTTY === true;
    },
    get columns() {
      return stream.columns || 80;
    },
    get rows() {
      return stream.rows || 24;
    },
  };
}

function ask(question: string): Promise<string | undefined> {
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve) => {
    // A Ctrl+C or Ctrl+D at the question is an answer as well: none.
    const leave = () => {
      process.stderr.write("\n");
      resolve(undefined);
    };
    reader.once("SIGINT", () => reader.close());
    reader.once("close", leave);
    reader.question(question, (answer) => {
      reader.off("close", leave);
      reader.close();
      resolve(answer);
    });
  });
}
