import { checkDuration } from "../_checks.ts";
import type { Metric, MetricSource } from "../health/metric_source.ts";
import type { Support } from "../lifecycle/resources.ts";
import { attempt, type Attempted, type Errand, type Failed } from "./_attempt.ts";
import { type Choice, choose, ownerOf } from "./_choose.ts";
import type { CircuitState } from "./_circuit_breaker.ts";
import { Emitter } from "../_emitter.ts";
import { poolFetch } from "./_pool_fetch.ts";
import { PoolCounters } from "./_pool_counters.ts";
import { Roster } from "./_roster.ts";
import { loadTracing, startNoSpan } from "./_tracing.ts";
import type {
  AttemptOutcome,
  PoolCall,
  PoolEvents,
  PoolRequestOptions,
  RetryClass,
} from "./pool_call.ts";
import { mayHaveStarted, NoWorkerError } from "./pool_errors.ts";
import { type PoolConfig, poolConfig, type WorkerPoolOptions } from "./pool_options.ts";
import type { WorkerAddress } from "./worker_address.ts";

/** How a worker is doing, as its pool sees it. */
export interface WorkerStatus extends WorkerAddress {
  /** Undefined until it has been asked once. */
  readonly healthy: boolean | undefined;
  /** How many more requests it says that it can take. */
  readonly freeSlots: number;
  /** Requests that it has from here. */
  readonly inFlight: number;
  /** Whether it is asked at all after what failed there. */
  readonly circuit: CircuitState;
}

/**
 * Spreads requests over workers, and asks another when one is stopping, out of reach or full.
 *
 * The worker with the most free slots is asked. What it fails with decides how many attempts there are in
 * all: 3 when it is stopping, 2 when it cannot be reached or has no room, 1 otherwise, and 1 for requests
 * that are bound to a session. All of them share the caller's deadline. With too little time left for
 * another attempt, or nobody left to ask, the last answer is the answer.
 *
 * A request that is not `idempotent` goes to another worker only when it is certain that no worker has
 * begun with it: the worker refused the connection, or answered that it is stopping or has no room. When
 * the connection breaks later, `fetch` rejects with an `UnreachableError` whose `started` is true.
 *
 * It is support for a `LoopGroup`, which starts it before the loops and stops it after them: requests
 * that are finished while the process drains still find a healthy worker.
 *
 * @example
 * ```ts ignore
 * import { LoopGroup } from "@lastcall/lastcall";
 * import { ServiceLoop, WorkerPool } from "@lastcall/lastcall/service";
 *
 * const pool = new WorkerPool({ workers: ["http://10.0.0.7:8080", "http://10.0.0.8:8080"] });
 * const front = new ServiceLoop("front", (request) => pool.fetch(request), { port: 8080 });
 * await new LoopGroup([front], { support: [pool] }).main();
 * ```
 */
export class WorkerPool implements Support, MetricSource, AsyncDisposable {
  /** What reports and metrics call it by. */
  readonly name: string;
  readonly #config: PoolConfig;
  readonly #emitter: Emitter<PoolEvents>;
  readonly #counters = new PoolCounters();
  readonly #roster: Roster;
  #startSpan = startNoSpan;
  #turns = 0;

  /** Checks everything; nothing is asked before `start`. */
  constructor(options: WorkerPoolOptions) {
    this.#config = poolConfig(options);
    this.name = this.#config.name;
    this.#emitter = new Emitter(this.#config.log);
    this.#roster = new Roster(this.#config, this.#emitter, this.#counters);
  }

  /** Finds the workers and asks each how it is doing; from then on again and again. */
  async start(): Promise<void> {
    this.#startSpan = await loadTracing();
    await this.#roster.start();
  }

  /** Ends the asking. Requests under way are not touched. */
  async stop(): Promise<void> {
    this.#roster.stop();
    await Promise.resolve();
  }

  /** The same as `stop`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Watches the pool: `attempt` and `worker`. Returns the remover. */
  on<K extends keyof PoolEvents>(kind: K, listener: (event: PoolEvents[K]) => void): () => void {
    return this.#emitter.on(kind, listener);
  }

  /** The workers and how they are doing now. */
  get workers(): readonly WorkerStatus[] {
    return this.#roster.workers.map(({ address, healthy, freeSlots, inFlight, circuit }) => ({
      ...address,
      healthy,
      freeSlots,
      inFlight,
      circuit: circuit.state,
    }));
  }

  /** Attempts, retries, health checks and workers as numbers. */
  metrics(): readonly Metric[] {
    return this.#counters.metrics(this.name, this.#roster.workers);
  }

  /**
   * Hands a request on to a worker, at the same path. Answers are given back as they are: the last one
   * that says TERMINATING or has no room too, when there is nobody else to ask. When none of the workers
   * was healthy, the header `x-lastcall-none-healthy` says so.
   *
   * Rejects with an `UnreachableError`, a `NoWorkerError` or a `DeadlineExceededError` when there is no
   * answer at all. What is sent is kept in memory for another attempt, except for a session's. Requests
   * that are not idempotent are sent as a stream, which no runtime's `fetch` repeats by itself.
   */
  fetch(
    request: Request | URL | string,
    options: PoolRequestOptions = {},
  ): Promise<Response> {
    const incoming = request instanceof Request ? request : new Request(request);
    const { capacityCodes } = this.#config;
    const run = (call: PoolCall<Response>, more: PoolRequestOptions) => this.run(call, more);
    return poolFetch(incoming, options, bound(options), capacityCodes, run);
  }

  /**
   * Has a worker asked by `call`, and another where that may help. Rejects with what the last attempt
   * failed with, and with a `NoWorkerError` when there was nobody to ask.
   */
  async run<T>(call: PoolCall<T>, options: PoolRequestOptions = {}): Promise<T> {
    const { clock, minRemainingMs } = this.#config;
    const deadlineMs = checkDuration("deadlineMs", options.deadlineMs ?? this.#config.deadlineMs);
    const endsAt = clock.monotonic() + deadlineMs;
    const errand: Errand<T> = { call, deadlineMs, endsAt, signal: options.signal };
    const excluded = new Set(options.exclude);

    let choice = this.#first(options, excluded);
    for (let number = 1;; number++) {
      const attempted = await this.#attempt(choice, errand, number, ({ outcome, error }) => {
        if (bound(options) || number >= this.#attemptsFor(outcome)) return undefined;
        if (mayHaveStarted(error) && options.idempotent !== true) return undefined;
        if (endsAt - clock.monotonic() < minRemainingMs) return undefined;
        excluded.add(choice.worker.address.id);
        return choose(this.#roster.workers, excluded);
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
    const { workers } = this.#roster;
    const { sessionId, workerId } = options;
    const worker = workerId !== undefined
      ? this.#roster.find(workerId)
      : sessionId !== undefined
      ? ownerOf(workers, sessionId)
      : undefined;
    if (worker !== undefined) return { worker, noneHealthy: !workers.some((it) => it.eligible) };
    const choice = workerId === undefined ? choose(workers, excluded) : undefined;
    if (choice !== undefined) return choice;
    throw new NoWorkerError(
      workerId !== undefined
        ? `Pool "${this.name}" knows no worker "${workerId}": it may have left`
        : `Pool "${this.name}" has nobody to ask: it knows ${workers.length} workers, and ` +
          `${excluded.size} were excluded`,
    );
  }

  /** Asks once, finds out who is next, and tells everybody. */
  async #attempt<T>(
    choice: Choice,
    errand: Errand<T>,
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
    worker.lastTurn = ++this.#turns;
    worker.circuit.begin();
    const attempted = await attempt(choice, errand, number, span, clock);
    this.#learn(choice, attempted.outcome);
    const next = attempted.outcome === "answered" ? undefined : nextAfter(attempted);
    const error = attempted.outcome === "answered" ? undefined : attempted.error;
    span.end(attempted.outcome, error);
    const event = {
      worker: id,
      attempt: number,
      outcome: attempted.outcome,
      ms: clock.monotonic() - began,
      remainingMs: Math.max(0, errand.endsAt - clock.monotonic()),
      retried: next !== undefined,
      noneHealthy,
      ...(error === undefined ? {} : { error }),
    };
    this.#counters.attempted(event);
    if (error !== undefined) log.info(`worker "${id}": ${attempted.outcome}`, event);
    this.#emitter.emit("attempt", event);
    return { ...attempted, next };
  }

  /** What an attempt says about the worker. */
  #learn({ worker }: Choice, outcome: AttemptOutcome): void {
    const { circuit } = worker;
    if (outcome === "unreachable" || outcome === "deadline") {
      if (circuit.failed()) this.#roster.tell(worker, "circuit_opened");
    } else if (outcome === "answered") circuit.succeeded();
    else circuit.passed();
    if (outcome === "terminating") this.#roster.isTerminating(worker);
    if (outcome === "capacity") worker.isFull();
  }
}

function bound({ sessionId, workerId }: PoolRequestOptions): boolean {
  return sessionId !== undefined || workerId !== undefined;
}
