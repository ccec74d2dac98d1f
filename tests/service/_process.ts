import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Waiting } from "../_waiting.ts";

/** Longer than any passing test needs. */
const SAFETY_MS = 30_000;
const FLAGS = detectRuntime().name === "deno" ? ["run", "-A", "--no-check"] : [];

const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** A service in its own process, on the runtime of the test. */
export class ServiceProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #closed: Promise<number | null>;
  readonly #waiting = new Waiting(SAFETY_MS, () => this.#output());
  stdout = "";
  stderr = "";
  #over = false;
  port = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    alive.add(child);
    child.stdout!.setEncoding("utf8").on("data", (text) => this.#look(this.stdout += text));
    child.stderr!.setEncoding("utf8").on("data", (text) => this.#look(this.stderr += text));
    this.#closed = new Promise((resolve) =>
      child.on("close", (code) => {
        alive.delete(child);
        this.#look(this.#over = true);
        resolve(code);
      })
    );
  }

  /** Starts a file, relative to this folder, and waits until it listens. */
  static async start(file: string, ...args: readonly string[]): Promise<ServiceProcess> {
    const path = fileURLToPath(new URL(file, import.meta.url));
    const { FORCE_COLOR: _color, NODE_TEST_CONTEXT: _context, ...env } = process.env;
    const service = new ServiceProcess(
      spawn(process.execPath, [...FLAGS, path, ...args], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...env, NO_COLOR: "1" },
      }),
    );
    const [, port] = await service.printed(/listening on (\d+)/);
    service.port = Number(port);
    return service;
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** Requests a path on a new connection. */
  async ask(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const response = await fetch(this.url(path), { headers: { connection: "close" } });
    return { status: response.status, text: await response.text() };
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.#child.pid!, signal);
  }

  /** Waits until the process has printed this. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    await this.#waiting.until(() => pattern.test(this.stdout) || this.#over, String(pattern));
    const found = pattern.exec(this.stdout);
    if (found === null) throw new Error(`It ended without ${pattern}${this.#output()}`);
    return found;
  }

  /** Waits for the end of the process. Resolves with the exit code. */
  async ended(): Promise<number | null> {
    await this.#waiting.until(() => this.#over, "the end");
    return await this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#over) this.#child.kill("SIGKILL");
    await this.#closed;
  }

  #look(_: unknown): void {
    this.#waiting.look();
  }

  #output(): string {
    return `\n── stdout ──\n${this.stdout}\n── stderr ──\n${this.stderr}`;
  }
}
