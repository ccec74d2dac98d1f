import type { Clock } from "../clock.ts";
import { CircuitBreaker, type CircuitOptions } from "./_circuit_breaker.ts";
import type { WorkerAddress, WorkerHealth } from "./worker_address.ts";

/** What a pool knows of one worker. */
export class Worker {
  readonly address: WorkerAddress;
  readonly circuit: CircuitBreaker;
  /** Undefined until it has been asked once. */
  healthy: boolean | undefined;
  /** Requests that it has from here. */
  inFlight = 0;
  /** Grows with every request, whoever gets it: the number of the last that this one got. */
  lastTurn = 0;
  /** Health checks in a row that went wrong. */
  failures = 0;
  #freeSlots = 0;
  /** How many it had from here when it told its free slots. */
  #inFlightThen = 0;

  constructor(address: WorkerAddress, circuit: CircuitOptions, clock: Clock) {
    this.address = address;
    this.circuit = new CircuitBreaker(circuit, clock);
  }

  /** Whether to send it anything. */
  get eligible(): boolean {
    return this.healthy === true && this.circuit.allows;
  }

  /** How much more it can take, with what happened since it told. */
  get freeSlots(): number {
    return this.#freeSlots - (this.inFlight - this.#inFlightThen);
  }

  /** It told how it is doing. Without slots it counts as fuller the more it has from here. */
  tell({ healthy, freeSlots }: WorkerHealth): void {
    this.healthy = healthy;
    this.failures = healthy ? 0 : this.failures + 1;
    this.#freeSlots = freeSlots ?? 0;
    this.#inFlightThen = freeSlots === undefined ? 0 : this.inFlight;
  }

  /** It has no room, whatever it told before. */
  isFull(): void {
    this.#freeSlots = Math.min(0, this.freeSlots);
    this.#inFlightThen = this.inFlight;
  }
}
