import type { Clock } from "../clock.ts";
import { CircuitBreaker, type CircuitOptions } from "./_circuit_breaker.ts";
import type { WorkerAddress, WorkerHealth } from "./worker_address.ts";

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
