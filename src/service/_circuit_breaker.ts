import type { Clock } from "../clock.ts";

/** Whether a worker gets requests: all, none, or one to test it. */
export type CircuitState = "closed" | "open" | "half_open";

/** When a circuit opens, and how long it stays open. */
export interface CircuitOptions {
  /** The number of consecutive failures that opens the circuit. */
  readonly failures: number;
  /** How long the circuit stays open, in milliseconds. */
  readonly openMs: number;
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
