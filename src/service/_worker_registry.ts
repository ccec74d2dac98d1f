import { backoffMs } from "../_backoff.ts";
import { abortable } from "../_promises.ts";
import type { Cancel } from "../clock.ts";
import type { Emitter } from "../_emitter.ts";
import { type Metric, metric, samplesBy } from "../telemetry/metrics.ts";
import { Worker } from "./_worker.ts";
import {
  addresses,
  type AttemptEvent,
  type AttemptOutcome,
  type PoolConfig,
  type PoolEvents,
  type RetryClass,
  type WorkerAddress,
  type WorkerEvent,
} from "./pool_options.ts";

/** The log lines of the changes of a worker. */
const WORKER_CHANGES: Readonly<Record<WorkerEvent["change"], string>> = {
  joined: "worker joined",
  left: "worker left",
  healthy: "worker healthy",
  unhealthy: "worker unhealthy",
  circuit_opened: "worker circuit opened",
};

/** How long `discover` may take. */
const DISCOVERY_TIMEOUT_MS = 10_000;

/**
 * Discovers the workers and checks their health. Each worker has its own timer, so that a hung one does
 * not delay the others. The pause between checks grows with consecutive failures.
 */
export class WorkerRegistry {
  readonly #config: PoolConfig;
  readonly #emitter: Emitter<PoolEvents>;
  readonly #counters: PoolCounters;
  readonly #workers = new Map<string, Worker>();
  readonly #timers = new Map<Worker | "discovery", Cancel>();
  #stopped = new AbortController();
  #list: readonly Worker[] = [];

  constructor(config: PoolConfig, emitter: Emitter<PoolEvents>, counters: PoolCounters) {
    this.#config = config;
    this.#emitter = emitter;
    this.#counters = counters;
  }

  get workers(): readonly Worker[] {
    return this.#list;
  }

  find(id: string): Worker | undefined {
    return this.#workers.get(id);
  }

  /** Resolves when the workers are discovered and each has been checked once or timed out. */
  async start(): Promise<void> {
    this.#stopped = new AbortController();
    await this.#discover(this.#stopped.signal);
  }

  stop(): void {
    this.#stopped.abort();
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
  }

  /** Marks a worker that is stopping as unhealthy until its next successful check. */
  markTerminating(worker: Worker): void {
    this.#setHealthy(worker, false);
  }

  /** Logs and emits a change of a worker. */
  emitChange(worker: Worker, change: WorkerEvent["change"]): void {
    const { log } = this.#config;
    const { id } = worker.address;
    log[change === "circuit_opened" ? "warn" : "info"](WORKER_CHANGES[change], { worker: id });
    this.#emitter.emit("worker", { worker: id, change });
  }

  async #discover(stopped: AbortSignal): Promise<void> {
    const { discover, discoverEveryMs, log } = this.#config;
    let arrived: readonly Worker[] = [];
    try {
      const found = await this.#within(
        DISCOVERY_TIMEOUT_MS,
        stopped,
        async (signal) => addresses(await discover({ signal })),
      );
      if (stopped.aborted) return;
      arrived = this.#update(found);
    } catch (error) {
      if (stopped.aborted) return;
      log.warn("worker discovery failed, keeping the known workers", { error });
    }
    this.#later("discovery", discoverEveryMs, () => this.#discover(stopped));
    await Promise.all(arrived.map((worker) => this.#check(worker, stopped)));
  }

  #update(found: readonly WorkerAddress[]): readonly Worker[] {
    const { circuit, clock } = this.#config;
    const same = ({ id, url }: WorkerAddress) => this.#workers.get(id)?.address.url === url;
    const staying = new Set(found.filter(same).map(({ id }) => id));
    for (const [id, worker] of this.#workers) {
      if (staying.has(id)) continue;
      this.#workers.delete(id);
      this.#cancel(worker);
      this.emitChange(worker, "left");
    }
    const arrived = found.filter(({ id }) => !staying.has(id))
      .map((address) => new Worker(address, circuit, clock));
    for (const worker of arrived) {
      this.#workers.set(worker.address.id, worker);
      this.emitChange(worker, "joined");
    }
    this.#list = [...this.#workers.values()];
    return arrived;
  }

  async #check(worker: Worker, stopped: AbortSignal): Promise<void> {
    const { probe, healthEveryMs, healthTimeoutMs, healthBackoffMs } = this.#config;
    try {
      const ask = (signal: AbortSignal) => probe(worker.address, { signal });
      const health = await this.#within(healthTimeoutMs, stopped, ask);
      const report = typeof health === "boolean" ? { healthy: health } : health;
      this.#setHealthy(worker, report.healthy, () => worker.update(report));
      this.#counters.checked(report.healthy);
    } catch {
      if (stopped.aborted) return;
      this.#setHealthy(worker, false, () => worker.update({ healthy: false }));
      this.#counters.checked(false);
    }
    if (stopped.aborted || this.#workers.get(worker.address.id) !== worker) return;
    const pauseMs = worker.failures === 0
      ? healthEveryMs
      : backoffMs(worker.failures + 1, healthEveryMs, healthBackoffMs);
    this.#later(worker, pauseMs, () => this.#check(worker, stopped));
  }

  #setHealthy(
    worker: Worker,
    healthy: boolean,
    act: () => void = () => worker.healthy = healthy,
  ): void {
    const before = worker.healthy;
    act();
    if (before !== healthy) this.emitChange(worker, healthy ? "healthy" : "unhealthy");
  }

  /** Rejects after `ms`, even if `act` ignores its signal. */
  async #within<T>(
    ms: number,
    stopped: AbortSignal,
    act: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const controller = new AbortController();
    const abort = () => controller.abort(new Error(`no answer within ${ms} ms`));
    const cancel = this.#config.clock.schedule(ms, abort);
    stopped.addEventListener("abort", abort);
    try {
      return await abortable(act(controller.signal), controller.signal);
    } finally {
      cancel();
      stopped.removeEventListener("abort", abort);
    }
  }

  #later(what: Worker | "discovery", ms: number, task: () => Promise<void>): void {
    this.#cancel(what);
    this.#timers.set(what, this.#config.clock.schedule(ms, () => void task()));
  }

  #cancel(what: Worker | "discovery"): void {
    this.#timers.get(what)?.();
    this.#timers.delete(what);
  }
}

/** Counts attempts, retries and health checks. Workers change, so none has its own label. */
export class PoolCounters {
  readonly #attempts: Record<AttemptOutcome, number> = {
    answered: 0,
    terminating: 0,
    unreachable: 0,
    capacity: 0,
    failed: 0,
    deadline: 0,
    aborted: 0,
  };
  readonly #retries: Record<RetryClass, number> = { terminating: 0, unreachable: 0, capacity: 0 };
  readonly #checks = { healthy: 0, unhealthy: 0 };
  #noneHealthy = 0;

  attempted({ outcome, retried, noneHealthy }: AttemptEvent): void {
    this.#attempts[outcome]++;
    if (retried) this.#retries[outcome as RetryClass]++;
    if (noneHealthy) this.#noneHealthy++;
  }

  checked(healthy: boolean): void {
    this.#checks[healthy ? "healthy" : "unhealthy"]++;
  }

  metrics(pool: string, workers: readonly Worker[]): readonly Metric[] {
    const states = { healthy: 0, unhealthy: 0, circuit_open: 0 };
    for (const { healthy, circuit } of workers) {
      states[circuit.state !== "closed" ? "circuit_open" : healthy ? "healthy" : "unhealthy"]++;
    }
    const inFlight = workers.reduce((sum, worker) => sum + worker.inFlight, 0);
    const labels = { pool };
    return [
      metric("lastcall_pool_attempts_total", samplesBy("outcome", this.#attempts, labels)),
      metric("lastcall_pool_retries_total", samplesBy("reason", this.#retries, labels)),
      metric("lastcall_pool_none_healthy_total", this.#noneHealthy, labels),
      metric("lastcall_pool_health_checks_total", samplesBy("health", this.#checks, labels)),
      metric("lastcall_pool_workers", samplesBy("state", states, labels)),
      metric("lastcall_pool_in_flight", inFlight, labels),
    ];
  }
}
