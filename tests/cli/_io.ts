// Runs a command in this process with given input, and collects its output.

import { type Io, main } from "../../cli/mod.ts";
import type { Runtime } from "../../src/lifecycle.ts";

/** The input and the environment of the command. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** The lines of standard input; without any it is a terminal. */
  readonly lines?: Iterable<string> | AsyncIterable<string>;
  /** The answer to questions. With one, standard output and standard error are terminals. */
  readonly answer?: string;
  /** Whether standard output and standard error are terminals. */
  readonly interactive?: boolean;
  readonly runtime?: Runtime;
  /** Called with each text that is written to standard output. */
  readonly onOut?: (text: string) => void;
  /** The same for standard error. */
  readonly onErr?: (text: string) => void;
  /** The keyboard: see `keys` of Io. */
  readonly keys?: NonNullable<Io["keys"]>;
  /** @default {80} */
  readonly columns?: number;
  readonly rows?: number;
}

/** The exit code and the output of the command. */
export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** The lines of standard output, each parsed as JSON. */
  // deno-lint-ignore no-explicit-any -- as JSON.parse has it
  readonly json: readonly any[];
}

/** Runs the command with these arguments in this process. */
export async function lastcall(args: readonly string[], around: Surroundings = {}): Promise<Ended> {
  let out = "";
  let err = "";
  const interactive = around.interactive ?? around.answer !== undefined;
  const { columns = 80, rows } = around;
  const size = rows === undefined ? { columns } : { columns, rows };
  const io: Io = {
    out: { write: (text) => (out += text, around.onOut?.(text)), interactive, ...size },
    err: { write: (text) => (err += text, around.onErr?.(text)), interactive, ...size },
    env: around.env ?? {},
    typed: around.lines === undefined,
    lines: async function* () {
      yield* around.lines ?? [];
    },
    ask: (question) => {
      err += question;
      return Promise.resolve(around.answer);
    },
    ...(around.keys === undefined ? {} : { keys: around.keys }),
    // A fake process does not end, so a watchdog would keep running.
    ...(around.runtime ? { group: { runtime: around.runtime, watchdogThresholdMs: false } } : {}),
  };
  const code = await main(args, io);
  return {
    code,
    out,
    err,
    get json() {
      return out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    },
  };
}
