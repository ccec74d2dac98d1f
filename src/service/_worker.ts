import type { Clock } from "../clock.ts";
import type { CircuitOptions, CircuitState, WorkerAddress, WorkerHealth } from "./pool_options.ts";

/** The state of one worker in a pool. */
export class Worker {
  readonly address: WorkerAddress;
  readonly circuit: CircuitBreaker;
  /** Undefined until the first health check. */
  healthy: boolean | undefined;
  /** Requests in flight from this pool. */
  inFlight = 0;
  /** The number of the last request that this worker got, counted over the whole pool. */
  lastRequest = 0;
  /** Consecutive failed health checks. */
  failures = 0;
  #freeSlots = 0;
  /** `inFlight` when the worker reported its free slots. */
  #inFlightAtUpdate = 0;

  constructor(address: WorkerAddress, circuit: CircuitOptions, clock: Clock) {
    this.address = address;
    this.circuit = new CircuitBreaker(circuit, clock);
  }

  /** Whether the worker may get a request. */
  get eligible(): boolean {
    return this.healthy === true && this.circuit.allows;
  }

  /** The free slots, less the requests sent since the worker reported them. */
  get freeSlots(): number {
    return this.#freeSlots - (this.inFlight - this.#inFlightAtUpdate);
  }

  /** Stores the result of a health check. Without `freeSlots`, each request in flight counts as one slot. */
  update({ healthy, freeSlots }: WorkerHealth): void {
    this.healthy = healthy;
    this.failures = healthy ? 0 : this.failures + 1;
    this.#freeSlots = freeSlots ?? 0;
    this.#inFlightAtUpdate = freeSlots === undefined ? 0 : this.inFlight;
  }

  /** Records that the worker has no free slot, until its next health check. */
  markFull(): void {
    this.#freeSlots = Math.min(0, this.freeSlots);
    this.#inFlightAtUpdate = this.inFlight;
  }
}

/**
 * Stops requests to a worker that fails repeatedly although its health checks succeed.
 *
 * ```text
 * closed ── consecutive failures ───────▶ open ── time passes ──▶ half open: one request
 *   ▲                                      ▲                         │        │
 *   │                                      └──────── it fails ───────┘        │
 *   └────────────────────────────── it succeeds ──────────────────────────────┘
 * ```
 */
export class CircuitBreaker {
  readonly #options: CircuitOptions;
  readonly #clock: Clock;
  #failures = 0;
  #halfOpenAt: number | undefined;
  #probing = false;

  constructor(options: CircuitOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get state(): CircuitState {
    if (this.#halfOpenAt === undefined) return "closed";
    return this.#clock.monotonic() < this.#halfOpenAt ? "open" : "half_open";
  }

  /** True when the worker may get a request. */
  get allows(): boolean {
    return this.state === "closed" || this.state === "half_open" && !this.#probing;
  }

  /** Records that a request begins. */
  begin(): void {
    if (this.state === "half_open") this.#probing = true;
  }

  /** Records an answer, which closes the circuit. */
  succeeded(): void {
    this.#failures = 0;
    this.#halfOpenAt = undefined;
    this.#probing = false;
  }

  /** Records a failure. Returns true when this opens the circuit. */
  failed(): boolean {
    const wasClosed = this.#halfOpenAt === undefined;
    this.#probing = false;
    if (++this.#failures < this.#options.failures && wasClosed) return false;
    this.#halfOpenAt = this.#clock.monotonic() + this.#options.openMs;
    return wasClosed;
  }

  /** Records a request that says nothing about the worker's health. */
  passed(): void {
    this.#probing = false;
  }
}

/** The worker for the next attempt. */
export interface Choice {
  readonly worker: Worker;
  /** True when no worker was healthy, and this one was chosen among the unhealthy. */
  readonly noneHealthy: boolean;
}

/**
 * Returns the worker with the most free slots; among equal ones the least recently used. When no worker is
 * healthy, it chooses among the unhealthy.
 */
export function choose(
  workers: readonly Worker[],
  excluded: ReadonlySet<string>,
): Choice | undefined {
  const left = workers.filter(({ address }) => !excluded.has(address.id));
  const eligible = left.filter((worker) => worker.eligible);
  const noneHealthy = eligible.length === 0;
  const worker = freest(noneHealthy ? left : eligible);
  return worker && { worker, noneHealthy };
}

function freest(workers: readonly Worker[]): Worker | undefined {
  let best: Worker | undefined;
  for (const worker of workers) {
    const ahead = best === undefined || worker.freeSlots > best.freeSlots ||
      worker.freeSlots === best.freeSlots && worker.lastRequest < best.lastRequest;
    if (ahead) best = worker;
  }
  return best;
}

/** Returns the worker that a session belongs to, by rendezvous hashing. */
export function ownerOf(workers: readonly Worker[], sessionId: string): Worker | undefined {
  let owner: Worker | undefined;
  let highest = -1;
  for (const worker of workers) {
    const weight = hash(`${worker.address.id}\0${sessionId}`);
    if (weight > highest) [owner, highest] = [worker, weight];
  }
  return owner;
}

/** FNV-1a with a final mix, so that texts that differ only in their last characters spread. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  value = Math.imul(value ^ value >>> 16, 0x85ebca6b);
  return (value ^ value >>> 13) >>> 0;
}
