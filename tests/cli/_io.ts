// A command line without a process: what a command reads is given, what it writes is kept.

import type { Io } from "../../cli/mod.ts";
import { main } from "../../cli/mod.ts";
import type { Runtime } from "../../mod.ts";

/** What the command finds around it. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** The lines of standard input; without any it is a terminal with a person at it. */
  readonly lines?: Iterable<string> | AsyncIterable<string>;
  /** What the person answers; without any nobody is there, and nothing is a terminal. */
  readonly answer?: string;
  /** Whether standard output and standard error are terminals. */
  readonly interactive?: boolean;
  readonly runtime?: Runtime;
  /** Hears what is written to standard output, as it is written. */
  readonly onOut?: (text: string) => void;
  /** The same for standard error. */
  readonly onErr?: (text: string) => void;
  /** @default {80} */
  readonly columns?: number;
  readonly rows?: number;
}

/** How it ended and what it wrote. */
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
    // A watchdog would go on after what is only the end of a fake process.
    ...(around.runtime ? { group: { runtime: around.runtime, watchdogThresholdMs: null } } : {}),
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
