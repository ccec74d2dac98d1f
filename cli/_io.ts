// What a command sees of the world around it. Tests pass their own.

import { writeSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import type { WriteStream } from "node:tty";
import type { LoopGroupOptions } from "../mod.ts";
import { knownRuntime, type Terminal } from "../src/runtime.ts";

/** One of the two streams that a command writes to. */
export interface Sink {
  /** Writes a text as it is. */
  write(text: string): void;
  /** Resolves when everything was written; for a sink that does not wait for its reader. */
  flush?(): Promise<void>;
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
}

/** The streams of this process. */
export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process;
  return {
    out: sink(1, stdout),
    err: sink(2, stderr, knownRuntime()?.terminal),
    env,
    typed: stdin.isTTY === true,
    lines: () => createInterface({ input: stdin, crlfDelay: Infinity }),
    ask,
  };
}

/** With a `terminal` it never waits for a reader, because `run` writes there while it stops. */
function sink(fd: number, stream: WriteStream, terminal?: Terminal): Sink {
  return {
    flush: async () => await terminal?.flush?.(),
    write(text) {
      if (terminal !== undefined) return terminal.write(text);
      const bytes = new TextEncoder().encode(text);
      for (let at = 0; at < bytes.length;) at += writeSome(fd, bytes.subarray(at));
    },
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

const nothing = new Int32Array(new SharedArrayBuffer(4));

/** Writes before it returns: not every runtime writes to a pipe what it has when the process ends. */
function writeSome(fd: number, bytes: Uint8Array): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const { code } = error as { readonly code?: string };
    // Whoever reads only the beginning, as `head` does, has what it wanted.
    if (code === "EPIPE") process.exit(0);
    if (code !== "EAGAIN") throw error;
    Atomics.wait(nothing, 0, 0, 5); // a pipe is full: its reader needs a moment
    return 0;
  }
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
