// Parses the console blocks of the documentation, runs their commands, and compares the output.
//
//   $ lastcall count sqlite:jobs.db      a command; `\` at its end continues it in the next line
//   3                                    its output; `…` in a line matches any text,
//   …                                    alone in a line any number of lines
//   ^C                                   Ctrl+C, pressed after the lines above are printed
//
// A command must succeed, unless the next one is `echo $?`, which shows its exit code.

import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import process from "node:process";
import xterm from "@xterm/headless";

/** A command with its expected output. */
export interface Command {
  /** The line number in the block, from 1. */
  readonly line: number;
  readonly text: string;
  /** The expected lines; the line `^C` is a key press. */
  readonly expected: readonly string[];
  /** True if the next command shows the exit code. */
  readonly mayFail: boolean;
}

const ANYTHING = "…";
const INTERRUPT = "^C";

/** Parses the commands of a console block. */
export function parseCommands(text: string): readonly Command[] {
  const found: { line: number; text: string; expected: string[] }[] = [];
  let goesOn = false;
  text.split("\n").forEach((line, index) => {
    const current = found.at(-1);
    if (line.startsWith("$ ")) found.push({ line: index + 1, text: line.slice(2), expected: [] });
    else if (current === undefined) throw new Error(`Output without a command: ${line}`);
    else if (goesOn) current.text += `\n${line.replace(/^> /, "")}`;
    else current.expected.push(line.trimEnd());
    goesOn = line.endsWith("\\") && (goesOn || line.startsWith("$ "));
  });
  return found.map((it, index) => ({
    ...it,
    mayFail: found[index + 1]?.text.startsWith("echo $?") ?? false,
  }));
}

/** Returns how often Ctrl+C is to be pressed after this much output. */
export function interruptsDue(expected: readonly string[], output: string): number {
  // Ignores an incomplete last line.
  const printed = lines(output.slice(0, output.lastIndexOf("\n") + 1));
  const parts = expected.flatMap((line, index) => line === INTERRUPT ? [index] : []);
  const due = parts.findIndex((end) => {
    const before = withoutKeys(expected.slice(0, end));
    return furthest([...before, ANYTHING], printed).matches === false;
  });
  return due < 0 ? parts.length : due;
}

/** Returns a diff of expected and printed lines, or undefined when they match. */
export function difference(expected: readonly string[], output: string): string | undefined {
  const wanted = withoutKeys(expected);
  const printed = lines(output);
  const { matches, wantedUpTo, printedUpTo } = furthest(wanted, printed);
  if (matches) return undefined;
  return [
    ...printed.slice(0, printedUpTo).map((line) => `  ${line}`),
    ...wanted.slice(wantedUpTo).map((line) => `- ${line}`),
    ...printed.slice(printedUpTo).map((line) => `+ ${line}`),
  ].map((line) => line.trimEnd()).join("\n");
}

function withoutKeys(expected: readonly string[]): readonly string[] {
  return expected.filter((line) => line !== INTERRUPT);
}

function lines(output: string): readonly string[] {
  const trimmed = output.trimEnd();
  return trimmed === "" ? [] : trimmed.split("\n").map((line) => line.trimEnd());
}

interface Progress {
  readonly matches: boolean;
  readonly wantedUpTo: number;
  readonly printedUpTo: number;
}

/** Matches line by line with backtracking: `…` matches one line more after each mismatch. */
function furthest(wanted: readonly string[], printed: readonly string[]): Progress {
  let best = { matches: false, wantedUpTo: 0, printedUpTo: 0 };
  let gap: { wanted: number; printed: number } | undefined;
  for (let at = 0, seen = 0;;) {
    if (at > best.wantedUpTo) best = { matches: false, wantedUpTo: at, printedUpTo: seen };
    const line = wanted[at];
    if (line === ANYTHING) gap = { wanted: ++at, printed: seen };
    else if (at === wanted.length && seen === printed.length) return { ...best, matches: true };
    else if (line !== undefined && seen < printed.length && fits(line, printed[seen] ?? "")) {
      at++;
      seen++;
    } else if (gap !== undefined && gap.printed < printed.length) {
      at = gap.wanted;
      seen = ++gap.printed;
    } else return best;
  }
}

function fits(line: string, printed: string): boolean {
  const parts = line.split(ANYTHING).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(printed);
}

/** Returns why this machine cannot run commands in a terminal, or undefined when it can. */
export function whyNoTerminal(): string | undefined {
  const { status } = spawnSync("script", ["--version"]);
  return status === 0 ? undefined : "this machine has no `script` command to create a terminal";
}

/** Options of {@linkcode ConsoleSession}. */
export interface SessionOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The time limit of one command. @default {60_000} */
  readonly timeoutMs?: number;
  /** Runs the commands in a terminal, which needs the command `script`. @default {false} */
  readonly terminal?: boolean;
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

const BASH = ["bash", "--noprofile", "--norc"] as const;

/** Wide enough that no line wraps. */
const SIZE = { cols: 250, rows: 40 } as const;

/** The lines of a terminal, also those that scrolled out of view. */
class Screen {
  readonly #terminal = new xterm.Terminal({ ...SIZE, scrollback: 10_000, allowProposedApi: true });
  #written = Promise.resolve();

  /** Shows the output of programs, then calls `shown` with everything that is on the screen. */
  write(chunk: string, shown: (text: string) => void): void {
    this.#written = this.#written
      .then(() => new Promise<void>((resolve) => this.#terminal.write(chunk, resolve)))
      .then(() => shown(this.#text()));
  }

  clear(): void {
    this.#terminal.reset();
  }

  #text(): string {
    const { active } = this.#terminal.buffer;
    const cursor = active.baseY + active.cursorY;
    const all = Array.from(
      { length: cursor + 1 },
      (_, row) => active.getLine(row)?.translateToString(true) ?? "",
    );
    return all.join("\n");
  }
}

/**
 * One bash for all commands, so that variables, the current folder and background jobs persist. It
 * leads a process group, so that Ctrl+C reaches the same processes as in a terminal.
 */
export class ConsoleSession implements AsyncDisposable {
  readonly #shell: ChildProcessWithoutNullStreams;
  readonly #timeoutMs: number;
  readonly #closed: Promise<void>;
  /** Resolves when the terminal no longer shows what is typed. */
  readonly #ready: Promise<unknown>;
  readonly #screen: Screen | undefined;
  #output = "";
  #look: () => void = () => {};

  constructor({ cwd, env, timeoutMs = 60_000, terminal = false }: SessionOptions) {
    this.#timeoutMs = timeoutMs;
    this.#screen = terminal ? new Screen() : undefined;
    const [program, ...args] = terminal ? inTerminal() : BASH;
    this.#shell = spawn(program, args, { cwd, env, detached: true });
    this.#closed = new Promise((resolve) => {
      for (const event of ["close", "error"]) this.#shell.on(event, () => resolve());
    });
    this.#shell.stdin.on("error", () => {}); // bash has ended: the current command reports it
    const show = (text: string) => {
      this.#output = text;
      this.#look();
    };
    const take = (chunk: string) =>
      this.#screen ? this.#screen.write(chunk, show) : show(this.#output + chunk);
    this.#shell.stdout.setEncoding("utf8").on("data", take);
    this.#shell.stderr.setEncoding("utf8").on("data", take);
    this.#ready = this.#ended([]);
    // Merges both outputs in order, and keeps the shell alive on Ctrl+C.
    this.#shell.stdin.write("exec 2>&1; trap : INT; printf '\\n␄0\\n'\n");
  }

  /** Runs a command. Rejects with a diff when its output or its exit code is not as expected. */
  async run(command: Command): Promise<void> {
    await this.#ready;
    const ended = this.#ended(command.expected);
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

  #ended(expected: readonly string[]): Promise<Ended> {
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
          this.#screen?.clear();
          return give(output, Number(end[1]));
        }
        for (; pressed < interruptsDue(expected, this.#output); pressed++) this.#interrupt();
      };
    });
  }

  #interrupt(): void {
    if (this.#screen) this.#shell.stdin.write("\x03");
    else this.#signal("SIGINT");
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

/** Returns the command of a bash in a new terminal that shows neither prompts nor what is typed. */
function inTerminal(): readonly [string, ...string[]] {
  const shell = `PS1= PS2= exec ${BASH.join(" ")} --noediting +H`;
  const command = `stty cols ${SIZE.cols} rows ${SIZE.rows} -echo; ${shell}`;
  return ["script", "--quiet", "--flush", "--return", "--command", command, "/dev/null"];
}
