// The worker processes: they run on all three runtimes in turn, and a worker that ends is replaced.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT_CODES } from "../src/lifecycle/drain_report.ts";
import { root, runtimeBinary, type RuntimeName } from "../tools/runtimes.ts";
import type { AckAnswer, Ledger } from "./_ledger.ts";

/** How each runtime runs a file. */
export const RUN: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: ["run"],
  deno: ["run", "--allow-all", "--no-check", "--config", join(root, "deno.json")],
};
export const RUNTIMES: readonly RuntimeName[] = Object.keys(RUN) as RuntimeName[];

/** The shutdown timeout of a worker, and the time that its exit may take beyond that. */
const STOP_MS = 10_000;
const SLACK_MS = 5_000;

/** The pause before a worker that could not start during an outage is started again. */
const RESTART_MS = 200;

/** How many characters of a worker's output are kept for failures. */
const OUTPUT_LENGTH = 2_000;

const alive = new Set<ChildProcessByStdio<Writable, Readable, Readable>>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** What a worker is told, as JSON in its first argument. */
export interface WorkerSettings {
  /** The URL of the mailbox. */
  readonly url: string;
  readonly visibilityTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  /** How many messages it receives ahead. */
  readonly prefetch: number;
  /** True when each handler has steps. */
  readonly steps: boolean;
  /** When it dead-letters messages that end their processes. @default {the default of loops} */
  readonly maxDeliveries?: number;
  /** The URL of the mailbox of its cron loop. @default {no cron loop} */
  readonly cronUrl?: string;
}

/** How a worker ended: one of both is null. */
export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
}

/** One worker: `starting ─▶ working ⇄ suspended`, and `over` when the process has ended. */
export class WorkerProcess {
  readonly name: string;
  /** Resolves when the worker works or has ended. */
  readonly ready: Promise<void>;
  readonly ended: Promise<Ended>;
  state: "starting" | "working" | "suspended" = "starting";
  /** True when the run has told the worker to end. */
  stopRequested = false;
  over = false;
  /** True when a handler has ended the process: the message is poison. */
  isPoisoned = false;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #ledger: Ledger;
  /** When the worker got SIGKILL: from then on its leases are not valid. */
  #killedAt: number | undefined;
  #line = "";
  #output = "";
  #onReady!: () => void;

  constructor(number: number, runtime: RuntimeName, settings: WorkerSettings, ledger: Ledger) {
    this.name = `worker ${number} (${runtime})`;
    this.#ledger = ledger;
    this.ready = new Promise((resolve) => this.#onReady = resolve);
    const { NODE_TEST_CONTEXT: _, FORCE_COLOR: _color, ...env } = process.env;
    const program = join(root, "chaos", "worker.ts");
    const child = spawn(runtimeBinary(runtime), [
      ...RUN[runtime],
      program,
      JSON.stringify(settings),
    ], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...env, NO_COLOR: "1" },
    });
    this.#child = child;
    alive.add(child);
    child.stdin.on("error", () => {}); // the pipe closes when the worker ends
    child.stdout.setEncoding("utf8").on("data", (text: string) => this.#read(text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#output = (this.#output + text).slice(-OUTPUT_LENGTH);
    });
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        alive.delete(child);
        this.over = true;
        if (this.#killedAt === undefined) ledger.ended(this.name, Date.now());
        else ledger.ended(this.name, this.#killedAt, "killed");
        this.#onReady();
        resolve({ code, signal });
      });
    });
  }

  /** The end of the worker's output. */
  get output(): string {
    return this.#output;
  }

  send(signal: NodeJS.Signals): void {
    const at = Date.now();
    if (this.#child.kill(signal) && signal === "SIGKILL") this.#killedAt ??= at;
  }

  #read(text: string): void {
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop()!;
    for (const line of lines) {
      const [event, number, ...fields] = line.split(" ");
      const [first = "", second, third, fourth] = fields;
      const call = `${this.name}, call ${number}`;
      if (event === "started") {
        // Tells in histories why the death of a worker is not noticed.
        if (fourth === "undetected") this.#ledger.note(first, `${this.name} is not registered`);
        this.#ledger.started(this.name, call, first, Number(second), Number(third));
      } else if (event === "done") this.#ledger.done(call, Number(first));
      else if (event === "acknowledged") this.#ledger.acknowledged(call, first as AckAnswer);
      else if (event === "aborted") this.#ledger.aborted(call, Number(first));
      else if (event === "failed") this.#ledger.failed(call, Number(first));
      else if (event === "ran") this.#ledger.stepRan(call, first, Number(second));
      else if (event === "saved") this.#ledger.stepSaved(call, first, Number(second));
      else if (event === "stalled") {
        this.#ledger.stalled({ worker: this.name, from: Number(first), to: Number(second) });
      } else if (event === "dying") {
        this.isPoisoned = true;
        this.#killedAt ??= Number(first);
      } else if (event === "ready") {
        if (this.state === "starting") this.state = "working";
        this.#onReady();
      } else this.#output += `${line}\n`;
    }
  }
}

/** Options of {@linkcode Workers}. */
export interface WorkersOptions {
  readonly settings: Omit<WorkerSettings, "shutdownTimeoutMs">;
  readonly ledger: Ledger;
  /** Returns true during an outage of the engine and shortly after it. */
  readonly disturbed: () => boolean;
}

/** All workers of a run. */
export class Workers implements AsyncDisposable {
  /** What workers did wrong. */
  readonly failures: string[] = [];
  readonly #options: WorkersOptions;
  readonly #workers = new Set<WorkerProcess>();
  #added = 0;
  #closed = false;

  constructor(options: WorkersOptions) {
    this.#options = options;
  }

  /** Starts `count` workers. Resolves when they work. */
  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.add().ready));
  }

  /** The workers that work now, oldest first. */
  get working(): WorkerProcess[] {
    return [...this.#workers].filter((it) =>
      it.state === "working" && !it.stopRequested && !it.over
    );
  }

  /** Starts a worker. */
  add(): WorkerProcess {
    const { ledger } = this.#options;
    const settings = { ...this.#options.settings, shutdownTimeoutMs: STOP_MS };
    const runtime = RUNTIMES[this.#added % RUNTIMES.length]!;
    const worker = new WorkerProcess(++this.#added, runtime, settings, ledger);
    this.#workers.add(worker);
    void this.#watch(worker);
    return worker;
  }

  /** Stops a worker with SIGTERM. It must end within its shutdown timeout with exit code 0. */
  async stop(worker: WorkerProcess): Promise<void> {
    const { disturbed } = this.#options;
    const from = performance.now();
    let outage = disturbed();
    worker.stopRequested = true;
    worker.send("SIGTERM");
    while (!worker.over && performance.now() - from < STOP_MS + SLACK_MS) {
      await Promise.race([worker.ended, sleep(100)]);
      outage ||= disturbed();
    }
    const ms = Math.round(performance.now() - from);
    if (!worker.over) {
      worker.send("SIGKILL");
      return this.#fail(
        worker,
        `was running ${ms} ms after SIGTERM, with a limit of ${STOP_MS} ms`,
      );
    }
    const { code, signal } = await worker.ended;
    // During an outage a shutdown may time out.
    if (code === 0 || worker.isPoisoned || outage && code === EXIT_CODES.timed_out) return;
    this.#fail(worker, `ended with ${code ?? signal} ${ms} ms after SIGTERM`);
  }

  async kill(worker: WorkerProcess): Promise<void> {
    worker.stopRequested = true;
    worker.send("SIGKILL");
    await worker.ended;
  }

  /** Suspends a worker for `ms` milliseconds. The worker does not notice. */
  async suspend(worker: WorkerProcess, ms: number): Promise<void> {
    const from = Date.now();
    worker.state = "suspended";
    worker.send("SIGSTOP");
    await sleep(ms);
    worker.state = "working";
    worker.send("SIGCONT");
    this.#options.ledger.stalled({ worker: worker.name, from, to: Date.now() });
  }

  /** Stops all workers gracefully. */
  async stopAll(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#workers].map((worker) => worker.ready));
    await Promise.all(this.working.map((worker) => this.stop(worker)));
  }

  /** Kills all workers that are left. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const worker of this.#workers) worker.send("SIGKILL");
    await Promise.all([...this.#workers].map((worker) => worker.ended));
  }

  async #watch(worker: WorkerProcess): Promise<void> {
    const { disturbed } = this.#options;
    const outage = disturbed();
    await worker.ready;
    const started = !worker.over;
    const { code, signal } = await worker.ended;
    this.#workers.delete(worker);
    if (worker.stopRequested || this.#closed) return;
    if (!worker.isPoisoned && (started || !outage && !disturbed())) {
      this.#fail(worker, `ended with ${code ?? signal} without being told to`);
    }
    await sleep(RESTART_MS);
    if (!this.#closed) this.add();
  }

  #fail(worker: WorkerProcess, what: string): void {
    this.failures.push(`${worker.name} ${what}: ${worker.output}`);
  }
}
