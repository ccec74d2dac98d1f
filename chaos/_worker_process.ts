import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { root, runtimeBinary, type RuntimeName } from "../tools/runtimes.ts";
import type { Ledger } from "./_ledger.ts";

/** How a worker ended: one of both is null. */
export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
}

const RUN: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: ["run"],
  deno: ["run", "--allow-all", "--no-check", "--config", join(root, "deno.json")],
};

/** So much of what a worker says last is kept. */
const LAST_WORDS = 2_000;

const alive = new Set<ChildProcessByStdio<Writable, Readable, Readable>>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** One worker: `starting ─▶ working ⇄ paused`, dismissed at any time, and ended in the end. */
export class WorkerProcess {
  readonly name: string;
  /** Resolves when it works, or never will. */
  readonly ready: Promise<void>;
  readonly ended: Promise<Ended>;
  state: "starting" | "working" | "paused" = "starting";
  /** It was told to end. */
  dismissed = false;
  over = false;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #ledger: Ledger;
  #rest = "";
  #lastWords = "";
  #onReady!: () => void;

  constructor(number: number, runtime: RuntimeName, args: readonly string[], ledger: Ledger) {
    this.name = `worker ${number} (${runtime})`;
    this.#ledger = ledger;
    this.ready = new Promise((resolve) => this.#onReady = resolve);
    const { NODE_TEST_CONTEXT: _, FORCE_COLOR: _color, ...env } = process.env;
    const program = join(root, "chaos", "worker.ts");
    const child = spawn(runtimeBinary(runtime), [...RUN[runtime], program, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...env, NO_COLOR: "1" },
    });
    this.#child = child;
    alive.add(child);
    child.stdin.on("error", () => {}); // it ends with the worker, however that ends
    child.stdout.setEncoding("utf8").on("data", (text: string) => this.#read(text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS);
    });
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        alive.delete(child);
        this.over = true;
        this.#onReady();
        resolve({ code, signal });
      });
    });
  }

  /** What it has said of itself, of late. */
  get lastWords(): string {
    return this.#lastWords;
  }

  send(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) {
      const [what, id = "", attempt] = line.split(" ");
      if (what === "begin") this.#ledger.begin(this.name, id, Number(attempt));
      else if (what === "done") this.#ledger.done(this.name, id);
      else if (what === "ready") {
        if (this.state === "starting") this.state = "working";
        this.#onReady();
      } else this.#lastWords += `${line}\n`;
    }
  }
}
