import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Waiting } from "../_waiting.ts";

/** How a child ended: one of `code` and `signal` is null. */
export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  /** What it complained about: everything but the lines about its stop. */
  readonly stderr: string;
  /** Standard error as it was written. */
  readonly raw: string;
  /** What `main()` told of its stop, line by line. */
  readonly told: readonly ToldLine[];
}

/** One line about a stop. */
export interface ToldLine extends Readonly<Record<string, unknown>> {
  readonly event: string;
}

/** How to start a fixture. */
export interface StartOptions {
  /** @default {what the tests' runtime takes to run a file with all permissions} */
  readonly runFlags?: readonly string[];
  /** A program that starts the runtime, with its arguments. */
  readonly wrapper?: readonly string[];
  /** The fixture's own arguments. */
  readonly args?: readonly string[];
  /** The folder it starts in. @default {that of the tests} */
  readonly cwd?: string;
}

/** The runtime that hosts the tests, and each child. */
export const runtimeName: string = detectRuntime().name;

/** Only a bug lets anything last this long. */
const SAFETY_MS = 45_000;

/** What the runtime takes to run a file with all permissions. */
export const runFlags: readonly string[] = runtimeName === "deno" ? ["run", "-A"] : [];
const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/**
 * A fixture in a process of its own, on the runtime that hosts the test.
 *
 * ```ts ignore
 * await using child = Child.start("idle");
 * await child.line("ready");
 * child.kill("SIGTERM");
 * assertEquals((await child.exit()).code, 0);
 * ```
 */
export class Child implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #ended: Promise<Ended>;
  readonly #waiting = new Waiting(SAFETY_MS, () => this.#output());
  #stdout = "";
  #stderr = "";
  #over = false;

  private constructor(child: ChildProcess) {
    this.#process = child;
    alive.add(child);
    child.stdout!.setEncoding("utf8").on("data", (text) => this.#took(this.#stdout += text));
    child.stderr!.setEncoding("utf8").on("data", (text) => this.#took(this.#stderr += text));
    this.#ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        alive.delete(child);
        this.#took(this.#over = true);
        resolve({ code, signal, stdout: this.#stdout, raw: this.#stderr, ...split(this.#stderr) });
      });
    });
  }

  /** Starts `fixtures/<name>.ts`. */
  static start(name: string, options: StartOptions = {}): Child {
    const { runFlags: flags = runFlags, wrapper = [], args = [], cwd } = options;
    const fixture = fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url));
    const command = [...wrapper, process.execPath, ...flags, fixture, ...args];
    return new Child(
      spawn(command[0]!, command.slice(1), {
        stdio: ["ignore", "pipe", "pipe"],
        env: environment(),
        ...(cwd === undefined ? {} : { cwd }),
      }),
    );
  }

  get pid(): number {
    return this.#process.pid!;
  }

  /** Waits until the child has printed this line. */
  async line(text: string): Promise<void> {
    const printed = () => this.#stdout.split("\n").slice(0, -1).includes(text);
    await this.#waiting.until(() => printed() || this.#over, `the line "${text}"`, this.#ended);
    if (!printed()) throw new Error(`The child ended without the line "${text}"${this.#output()}`);
  }

  /** Waits until this is part of what the child has printed, wherever. */
  async says(part: string): Promise<void> {
    const said = () => `${this.#stdout}\n${this.#stderr}`.includes(part);
    await this.#waiting.until(() => said() || this.#over, `"${part}"`, this.#ended);
    if (!said()) throw new Error(`The child ended without saying "${part}"${this.#output()}`);
  }

  /** Waits until what the child has printed fits, wherever. */
  async matches(pattern: RegExp): Promise<RegExpExecArray> {
    const found = () => pattern.exec(`${this.#stdout}\n${this.#stderr}`);
    await this.#waiting.until(() => found() !== null || this.#over, String(pattern), this.#ended);
    const match = found();
    if (match === null) throw new Error(`The child ended without ${pattern}${this.#output()}`);
    return match;
  }

  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  /** Waits for the child's end. */
  async exit(): Promise<Ended> {
    await this.#waiting.until(() => this.#over, "the child's end", this.#ended);
    return await this.#ended;
  }

  /** Leaves no process behind, however the test went. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#over) this.#process.kill("SIGKILL");
    await this.#ended;
  }

  #took(_: unknown): void {
    this.#waiting.look();
  }

  #output(): string {
    return `\n── stdout ──\n${this.#stdout}\n── stderr ──\n${this.#stderr}`;
  }
}

/** Standard error has lines of JSON: what went wrong, which is put into words here, and how it stopped. */
function split(stderr: string): Pick<Ended, "stderr" | "told"> {
  const lines = stderr.split(/(?<=\n)/).map((line) => {
    return line.startsWith('{"at":') && line.endsWith("}\n") ? JSON.parse(line) as ToldLine : line;
  });
  const inWords = lines.flatMap((line) => {
    if (typeof line === "string") return line;
    const { event, message, error } = line;
    return event === "log" ? `lastcall: ${message}${error ? `: ${error}` : ""}\n` : [];
  });
  const told = lines.filter((line) => typeof line !== "string");
  return { stderr: inWords.join(""), told: told.filter(({ event }) => event !== "log") };
}

/** A gap that makes the next signal another one: repeats within 200 ms are the same. */
export async function gap(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 300));
}

function environment(): NodeJS.ProcessEnv {
  // FORCE_COLOR would win over NO_COLOR, and NODE_TEST_CONTEXT is the test runner's own.
  const { FORCE_COLOR: _color, NODE_TEST_CONTEXT: _context, ...inherited } = process.env;
  return { ...inherited, NO_COLOR: "1" };
}
