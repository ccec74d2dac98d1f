import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import xterm from "@xterm/headless";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Waiting } from "../_waiting.ts";

/** Longer than any passing test needs. */
const SAFETY_MS = 45_000;
const SIZE = { cols: 80, rows: 16 } as const;
const RUN_FLAGS = detectRuntime().name === "deno" ? ["run", "-A"] : [];
const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

export { whyNoTerminal as whyNoScreen } from "../../tools/console_blocks.ts";

/** A terminal emulator. */
export class Screen {
  readonly #terminal = new xterm.Terminal({ ...SIZE, allowProposedApi: true });

  /** Changes the number of rows. */
  resize(rows: number): void {
    this.#terminal.resize(SIZE.cols, rows);
  }

  /** Writes the output of a program to the terminal. */
  write(text: string): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(text, resolve));
  }

  /** True while a program uses the whole terminal. */
  get isTaken(): boolean {
    return this.#terminal.buffer.active.type === "alternate";
  }

  /** The visible lines without trailing blanks. */
  get lines(): readonly string[] {
    const { active } = this.#terminal.buffer;
    return Array.from({ length: this.#terminal.rows }, (_, row) => {
      return active.getLine(active.baseY + row)?.translateToString(true) ?? "";
    });
  }

  /** All lines, including those that scrolled out of view. */
  get history(): readonly string[] {
    const { active } = this.#terminal.buffer;
    return Array.from({ length: active.length }, (_, row) => {
      return active.getLine(row)?.translateToString(true) ?? "";
    });
  }
}

/** Runs a fixture in its own terminal, on the runtime of the test. */
export class TerminalProcess implements AsyncDisposable {
  readonly screen: Screen = new Screen();
  readonly #process: ChildProcess;
  readonly #ended: Promise<number | null>;
  readonly #waiting = new Waiting(SAFETY_MS, () => this.#picture());
  #over = false;
  #colored = false;

  private constructor(command: readonly string[], env: Readonly<Record<string, string>>) {
    const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
    const size = `stty cols ${SIZE.cols} rows ${SIZE.rows}`;
    const { FORCE_COLOR: _color, NODE_TEST_CONTEXT: _context, ...inherited } = process.env;
    const child = this.#process = spawn(
      "script",
      ["--quiet", "--flush", "--return", "--command", `${size}; exec ${quoted}`, "/dev/null"],
      {
        stdio: ["pipe", "pipe", "inherit"],
        env: { ...inherited, TERM: "xterm-256color", NO_COLOR: "", ...env },
      },
    );
    alive.add(child);
    let written = Promise.resolve();
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      // deno-lint-ignore no-control-regex -- colours begin with a control character
      this.#colored ||= /\x1b\[[\d;]*[1-9][\d;]*m/.test(text);
      written = written.then(() => this.screen.write(text)).then(() => this.#waiting.look());
    });
    this.#ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => {
        alive.delete(child);
        written.then(() => {
          this.#over = true;
          this.#waiting.look();
          resolve(code);
        });
      });
    });
  }

  /** Starts `fixtures/<name>.ts`. */
  static start(name: string, env: Readonly<Record<string, string>> = {}): TerminalProcess {
    const fixture = fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url));
    return new TerminalProcess([process.execPath, ...RUN_FLAGS, fixture], env);
  }

  /** True when the fixture has printed colours. */
  get colored(): boolean {
    return this.#colored;
  }

  /** Presses Ctrl+C. */
  interrupt(): void {
    this.press("\x03");
  }

  /** Presses a key. */
  press(key: string): void {
    this.#process.stdin!.write(key);
  }

  /** Waits until the screen shows this. */
  async shows(pattern: RegExp): Promise<void> {
    const shown = () => pattern.test(this.screen.lines.join("\n"));
    await this.#waiting.until(() => shown() || this.#over, String(pattern), this.#ended);
    if (!shown()) throw new Error(`It ended without showing ${pattern}${this.#picture()}`);
  }

  /** Waits for the end, and returns the exit code. */
  async exit(): Promise<number | null> {
    await this.#waiting.until(() => this.#over, "its end", this.#ended);
    return await this.#ended;
  }

  /** Leaves no process behind, however the test went. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#over) this.#process.kill("SIGKILL");
    await this.#ended;
  }

  #picture(): string {
    return `\n── the screen ──\n${this.screen.lines.join("\n")}`;
  }
}
