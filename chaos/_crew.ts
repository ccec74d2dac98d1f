import { setTimeout as sleep } from "node:timers/promises";
import type { RuntimeName } from "../tools/runtimes.ts";
import type { Ledger } from "./_ledger.ts";
import { WorkerProcess } from "./_worker_process.ts";

const RUNTIMES: readonly RuntimeName[] = ["node", "bun", "deno"];

/** The time a worker has for its stop, and what it may take beyond that to end and to be noticed. */
const STOP_MS = 10_000;
const SLACK_MS = 5_000;

/** A worker that could not start because the engine is away is started again after this. */
const RESTART_MS = 200;

/** What a crew needs. */
export interface CrewOptions {
  readonly url: string;
  readonly leaseMs: number;
  readonly ledger: Ledger;
  /** True while the engine is in trouble, or was a moment ago. */
  readonly troubled: () => boolean;
}

/** The workers, on all three runtimes in turn. Whoever ends is replaced. */
export class Crew implements AsyncDisposable {
  /** What workers must not do. */
  readonly failures: string[] = [];
  readonly #options: CrewOptions;
  readonly #workers = new Set<WorkerProcess>();
  #hired = 0;
  #closed = false;

  constructor(options: CrewOptions) {
    this.#options = options;
  }

  /** Starts so many, and waits until they work. */
  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.hire().ready));
  }

  /** Those that work now, the longest serving first. */
  get working(): WorkerProcess[] {
    return [...this.#workers].filter((it) => it.state === "working" && !it.dismissed && !it.over);
  }

  hire(): WorkerProcess {
    const { url, leaseMs, ledger } = this.#options;
    const runtime = RUNTIMES[this.#hired % RUNTIMES.length]!;
    const args = [url, `${leaseMs}`, `${STOP_MS}`];
    const worker = new WorkerProcess(++this.#hired, runtime, args, ledger);
    this.#workers.add(worker);
    void this.#watch(worker);
    return worker;
  }

  /** Stops a worker well: it has to end by itself, in time and with 0. */
  async stop(worker: WorkerProcess): Promise<void> {
    const { troubled } = this.#options;
    const from = performance.now();
    let disturbed = troubled();
    worker.dismissed = true;
    worker.send("SIGTERM");
    while (!worker.over && performance.now() - from < STOP_MS + SLACK_MS) {
      await Promise.race([worker.ended, sleep(100)]);
      disturbed ||= troubled();
    }
    const ms = Math.round(performance.now() - from);
    if (!worker.over) {
      worker.send("SIGKILL");
      return this.#fail(worker, `had not ended ${ms} ms after SIGTERM, of ${STOP_MS} ms it has`);
    }
    const { code, signal } = await worker.ended;
    // Without its engine a worker may run out of time, and says so.
    if (code === 0 || disturbed && code === 124) return;
    this.#fail(worker, `ended with ${code ?? signal} ${ms} ms after SIGTERM`);
  }

  async kill(worker: WorkerProcess): Promise<void> {
    worker.dismissed = true;
    worker.send("SIGKILL");
    await worker.ended;
  }

  /** It does nothing for so long, and does not know. */
  async pause(worker: WorkerProcess, ms: number): Promise<void> {
    worker.state = "paused";
    worker.send("SIGSTOP");
    await sleep(ms);
    worker.state = "working";
    worker.send("SIGCONT");
  }

  /** Stops all of them well. */
  async stopAll(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#workers].map((worker) => worker.ready));
    await Promise.all(this.working.map((worker) => this.stop(worker)));
  }

  /** Leaves no process behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const worker of this.#workers) worker.send("SIGKILL");
    await Promise.all([...this.#workers].map((worker) => worker.ended));
  }

  async #watch(worker: WorkerProcess): Promise<void> {
    const { troubled } = this.#options;
    const disturbed = troubled();
    await worker.ready;
    const started = !worker.over;
    const { code, signal } = await worker.ended;
    this.#workers.delete(worker);
    if (worker.dismissed || this.#closed) return;
    if (started || !disturbed && !troubled()) {
      this.#fail(worker, `ended with ${code ?? signal} though nobody had told it to`);
    }
    await sleep(RESTART_MS);
    if (!this.#closed) this.hire();
  }

  #fail(worker: WorkerProcess, what: string): void {
    this.failures.push(`${worker.name} ${what}: ${worker.lastWords}`);
  }
}
