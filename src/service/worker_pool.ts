import { checkDuration } from "../_checks.ts";
import { Emitter } from "../_emitter.ts";
import type { Resource } from "../lifecycle/resources.ts";
import type { Metric, MetricSource } from "../telemetry/metrics.ts";
import {
  attempt,
  type Attempted,
  type Failed,
  loadTracing,
  type PoolRequest,
  startNoSpan,
} from "./_attempt.ts";
import { poolFetch } from "./_pool_fetch.ts";
import { type Choice, choose, ownerOf } from "./_worker.ts";
import { PoolCounters, WorkerRegistry } from "./_worker_registry.ts";
import {
  type AttemptOutcome,
  type CircuitState,
  isBound,
  type PoolCall,
  type PoolConfig,
  poolConfig,
  type PoolEvents,
  type PoolRequestOptions,
  type RetryClass,
  type WorkerAddress,
  type WorkerPoolOptions,
} from "./pool_options.ts";
import { mayHaveStarted, NoWorkerError } from "./service_errors.ts";

/** The status of a worker in its pool. */
export interface WorkerStatus extends WorkerAddress {
  /** Undefined until the first health check. */
  readonly healthy: boolean | undefined;
  /** How many more requests the worker accepts. */
  readonly freeSlots: number;
  /** Requests in flight from this pool. */
  readonly inFlight: number;
  /** The state of its circuit breaker. */
  readonly circuit: CircuitState;
}

/**
 * Distributes requests over workers, and retries on another one when a worker is stopping, unreachable or
 * at capacity.
 *
 * The worker with the most free slots gets the request. The failure decides the number of attempts: 3 when
 * the worker is stopping, 2 when it is unreachable or at capacity, 1 otherwise and for requests that are
 * bound to a session. All attempts share the caller's deadline. With too little time or no worker left for
 * another attempt, the pool returns the last answer.
 *
 * The pool retries a request that is not `idempotent` only when no worker has begun it: the worker refused
 * the connection, or answered that it is stopping or at capacity. When the connection breaks later,
 * `fetch` rejects with an `UnreachableError` whose `started` is true.
 *
 * Pass it in `resources` of a `LoopGroup`, which starts it before the loops and stops it after them, so that
 * requests in flight during a stop still find a healthy worker.
 *
 * @example
 * ```ts ignore
 * import { LoopGroup } from "@lastcall/lastcall";
 * import { ServiceLoop, WorkerPool } from "@lastcall/lastcall/service";
 *
 * const pool = new WorkerPool({ workers: ["http://10.0.0.7:8080", "http://10.0.0.8:8080"] });
 * const front = new ServiceLoop("front", (request) => pool.fetch(request), { port: 8080 });
 * await new LoopGroup([front], { resources: [pool] }).main();
 * ```
 */
export class WorkerPool implements Resource, MetricSource, AsyncDisposable {
  /** Its name in reports and metrics. */
  readonly name: string;
  readonly #config: PoolConfig;
  readonly #emitter: Emitter<PoolEvents>;
  readonly #counters = new PoolCounters();
  readonly #registry: WorkerRegistry;
  #startSpan = startNoSpan;
  #requests = 0;

  /** Checks the options. No worker is contacted before `start`. */
  constructor(options: WorkerPoolOptions) {
    this.#config = poolConfig(options);
    this.name = this.#config.name;
    this.#emitter = new Emitter(this.#config.log);
    this.#registry = new WorkerRegistry(this.#config, this.#emitter, this.#counters);
  }

  /** Discovers the workers and checks their health, then repeats both periodically. */
  async start(): Promise<void> {
    this.#startSpan = await loadTracing();
    await this.#registry.start();
  }

  /** Stops discovery and health checks. Requests in flight continue. */
  async stop(): Promise<void> {
    this.#registry.stop();
    await Promise.resolve();
  }

  /** Calls `stop`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Adds a listener for `attempt` or `worker` events. Returns the remover. */
  on<K extends keyof PoolEvents>(kind: K, listener: (event: PoolEvents[K]) => void): () => void {
    return this.#emitter.on(kind, listener);
  }

  /** The workers and their current status. */
  get workers(): readonly WorkerStatus[] {
    return this.#registry.workers.map(({ address, healthy, freeSlots, inFlight, circuit }) => ({
      ...address,
      healthy,
      freeSlots,
      inFlight,
      circuit: circuit.state,
    }));
  }

  /** Returns the counts of attempts, retries, health checks and workers. */
  metrics(): readonly Metric[] {
    return this.#counters.metrics(this.name, this.#registry.workers);
  }

  /**
   * Forwards a request to a worker, at the same path, and returns its response unchanged. When no worker is
   * left to try, this can be a 503 of a stopping worker or one at capacity. The header
   * `x-lastcall-none-healthy` is set when no worker was healthy.
   *
   * Rejects with an `UnreachableError`, a `NoWorkerError` or a `DeadlineExceededError` when there is no
   * response. The body is kept in memory for another attempt, except for requests of a session. Requests
   * that are not idempotent are sent as a stream, which no runtime's `fetch` repeats by itself.
   */
  fetch(
    request: Request | URL | string,
    options: PoolRequestOptions = {},
  ): Promise<Response> {
    const incoming = request instanceof Request ? request : new Request(request);
    const { capacityCodes } = this.#config;
    const run = (call: PoolCall<Response>, more: PoolRequestOptions) => this.run(call, more);
    return poolFetch(incoming, options, capacityCodes, run);
  }

  /**
   * Calls `call` with a worker, and retries with another one as `fetch` does. Rejects with the error of the
   * last attempt, or with a `NoWorkerError` when no worker is available.
   */
  async run<T>(call: PoolCall<T>, options: PoolRequestOptions = {}): Promise<T> {
    const { clock, minRemainingMs } = this.#config;
    const deadlineMs = checkDuration("deadlineMs", options.deadlineMs ?? this.#config.deadlineMs);
    const endsAt = clock.monotonic() + deadlineMs;
    const poolRequest: PoolRequest<T> = { call, deadlineMs, endsAt, signal: options.signal };
    const excluded = new Set(options.exclude);

    let choice = this.#first(options, excluded);
    for (let number = 1;; number++) {
      const attempted = await this.#attempt(choice, poolRequest, number, ({ outcome, error }) => {
        if (isBound(options) || number >= this.#attemptsFor(outcome)) return undefined;
        if (mayHaveStarted(error) && options.idempotent !== true) return undefined;
        if (endsAt - clock.monotonic() < minRemainingMs) return undefined;
        excluded.add(choice.worker.address.id);
        return choose(this.#registry.workers, excluded);
      });
      if (attempted.outcome === "answered") return attempted.value;
      if (attempted.next === undefined) throw attempted.error;
      choice = attempted.next;
    }
  }

  #attemptsFor(outcome: AttemptOutcome): number {
    return this.#config.attempts[outcome as RetryClass] ?? 1;
  }

  #first(options: PoolRequestOptions, excluded: ReadonlySet<string>): Choice {
    const { workers } = this.#registry;
    const { sessionId, workerId } = options;
    const worker = workerId !== undefined
      ? this.#registry.find(workerId)
      : sessionId !== undefined
      ? ownerOf(workers, sessionId)
      : undefined;
    if (worker !== undefined) return { worker, noneHealthy: !workers.some((it) => it.eligible) };
    const choice = workerId === undefined ? choose(workers, excluded) : undefined;
    if (choice !== undefined) return choice;
    throw new NoWorkerError(
      workerId !== undefined
        ? `Pool "${this.name}" has no worker "${workerId}". It may have left; choose another one.`
        : `Pool "${this.name}" has no worker for the request: it has ${workers.length} workers, and ` +
          `${excluded.size} are excluded. Check that workers are discovered.`,
    );
  }

  /** Makes one attempt, chooses the worker for the next one, and reports the outcome. */
  async #attempt<T>(
    choice: Choice,
    poolRequest: PoolRequest<T>,
    number: number,
    nextAfter: (failed: Failed) => Choice | undefined,
  ): Promise<Attempted<T> & { readonly next: Choice | undefined }> {
    const { clock, log } = this.#config;
    const { worker, noneHealthy } = choice;
    const { id } = worker.address;
    const began = clock.monotonic();
    const span = this.#startSpan({
      "lastcall.pool": this.name,
      "lastcall.worker": id,
      "lastcall.attempt": number,
    });
    worker.lastRequest = ++this.#requests;
    worker.circuit.begin();
    const attempted = await attempt(choice, poolRequest, number, span, clock);
    this.#updateWorker(choice, attempted.outcome);
    const next = attempted.outcome === "answered" ? undefined : nextAfter(attempted);
    const error = attempted.outcome === "answered" ? undefined : attempted.error;
    span.end(attempted.outcome, error);
    const event = {
      worker: id,
      attempt: number,
      outcome: attempted.outcome,
      ms: clock.monotonic() - began,
      remainingMs: Math.max(0, poolRequest.endsAt - clock.monotonic()),
      retried: next !== undefined,
      noneHealthy,
      ...(error === undefined ? {} : { error }),
    };
    this.#counters.attempted(event);
    if (error !== undefined) log.info("attempt failed", event);
    this.#emitter.emit("attempt", event);
    return { ...attempted, next };
  }

  /** Updates the circuit and the health of the worker after an attempt. */
  #updateWorker({ worker }: Choice, outcome: AttemptOutcome): void {
    const { circuit } = worker;
    if (outcome === "unreachable" || outcome === "deadline") {
      if (circuit.failed()) this.#registry.emitChange(worker, "circuit_opened");
    } else if (outcome === "answered") circuit.succeeded();
    else circuit.passed();
    if (outcome === "terminating") this.#registry.markTerminating(worker);
    if (outcome === "capacity") worker.markFull();
  }
}
