// What a command reads and writes, and the signals that end it. Tests pass their own.

import { writeSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import type { WriteStream } from "node:tty";
import { type LoopGroupOptions, systemClock } from "../mod.ts";
import { defaultRuntime, exitCodeOf, knownRuntime, type Terminal } from "../src/runtime.ts";
import { CliError, usageError } from "./_errors.ts";

/** Standard output or standard error of a command. */
export interface Sink {
  /** Writes the text unchanged. */
  write(text: string): void;
  /** Resolves when all text is written. For a sink that does not wait for its reader. */
  flush?(): Promise<void>;
  /** True for a terminal, false for a file or a pipe. */
  readonly interactive: boolean;
  /** The width in characters. */
  readonly columns: number;
  /** The height in lines, where it is known. */
  readonly rows?: number;
}

/** Everything that a command reads and writes. */
export interface Io {
  /** Standard output, for results. */
  readonly out: Sink;
  /** Standard error, for errors, questions and progress. */
  readonly err: Sink;
  /** The environment variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True when standard input is a terminal. */
  readonly typed: boolean;
  /** Yields the lines of standard input as they arrive. */
  lines(): AsyncIterable<string>;
  /** Asks the user and resolves to the answer, or to undefined at the end of the input. */
  ask(question: string): Promise<string | undefined>;
  /**
   * Calls `listener` with each key that is pressed, until the returned function is called. Ctrl+C is the key
   * `\x03` then, and no signal.
   */
  keys?(listener: (key: string) => void): () => void;
  /**
   * Options for the groups of `run` and `demo`. Stop signals also come from its `runtime`.
   *
   * @default {the runtime of this process, with a watchdog}
   */
  readonly group?: Pick<LoopGroupOptions, "runtime" | "watchdogThresholdMs">;
}

/** Returns the streams and the environment of this process. */
export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process;
  return {
    out: sink(1, stdout),
    err: sink(2, stderr, knownRuntime()?.terminal),
    env,
    typed: stdin.isTTY === true,
    lines: () => createInterface({ input: stdin, crlfDelay: Infinity }),
    ask,
    keys,
  };
}

/**
 * Asks for confirmation of a deletion.
 *
 * @throws {CliError} unless the answer is yes, and without a terminal unless `yes` is set: a script
 * must ask for the deletion explicitly.
 */
export async function confirm(io: Io, question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!io.typed || !io.err.interactive) {
    throw usageError(`${question} There is no terminal to confirm at: add --yes to delete.`);
  }
  const answer = await io.ask(`${question} [y/N] `);
  if (/^y(es)?$/i.test(answer?.trim() ?? "")) return;
  throw new CliError("failed", "Nothing was changed.");
}

/** With a `terminal` it never waits for the reader, because `run` writes there during a shutdown. */
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

const FULL_PIPE_PAUSE_MS = 5;
const sleepCell = new Int32Array(new SharedArrayBuffer(4));

/** Writes synchronously: some runtimes drop buffered pipe output when the process exits. */
function writeSome(fd: number, bytes: Uint8Array): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const { code } = error as { readonly code?: string };
    // The reader closed the pipe early, as `head` does: that is not a failure.
    if (code === "EPIPE") process.exit(0);
    if (code !== "EAGAIN") throw error;
    Atomics.wait(sleepCell, 0, 0, FULL_PIPE_PAUSE_MS);
    return 0;
  }
}

function keys(listener: (key: string) => void): () => void {
  const { stdin } = process;
  if (stdin.isTTY !== true) return () => {};
  const take = (chunk: unknown) => [...String(chunk)].forEach(listener);
  stdin.setRawMode(true);
  stdin.on("data", take).resume();
  return () => {
    stdin.off("data", take).pause();
    stdin.setRawMode(false);
  };
}

function ask(question: string): Promise<string | undefined> {
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve) => {
    // Ctrl+C and Ctrl+D at the question mean no answer.
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

/** Stop signals of the process as an `AbortSignal`. */
export interface Interruption {
  /** Aborts with a {@linkcode CliError} that names the signal. */
  readonly signal: AbortSignal;
  /** Removes the listeners. */
  end(): void;
}

/** Listens for stop signals. Without a listener the runtime would end the process at once. */
export function interruption(io: Io): Interruption {
  const abort = new AbortController();
  const runtime = io.group?.runtime ?? defaultRuntime();
  const removers = runtime.stopSignals.map((name) =>
    runtime.onSignal(name, () => {
      abort.abort(
        new CliError("interrupted", `Stopped by ${name}`, { exitCode: exitCodeOf(name) }),
      );
    })
  );
  return {
    signal: abort.signal,
    end: () => removers.forEach((remove) => remove()),
  };
}

/** Calls `look` every `everyMs` milliseconds until a stop signal, or until `quit` aborts. */
export async function watch(
  io: Io,
  everyMs: number,
  look: (signal: AbortSignal) => Promise<void>,
  quit?: AbortSignal,
): Promise<void> {
  const interrupted = interruption(io);
  const signal = AbortSignal.any([interrupted.signal, ...(quit === undefined ? [] : [quit])]);
  try {
    while (!signal.aborted) {
      await look(signal);
      await sleep(everyMs, signal);
    }
  } finally {
    interrupted.end();
  }
}

/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(ms, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
