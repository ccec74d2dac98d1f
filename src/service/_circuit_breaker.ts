import type { Clock } from "../clock.ts";

/** Whether a worker is asked: as usual, not at all, or once to see. */
export type CircuitState = "closed" | "open" | "half_open";

/** When a circuit opens, and for how long. */
export interface CircuitOptions {
  /** So many in a row open it. */
  readonly failures: number;
  /** How long nobody is let through then. */
  readonly openMs: number;
}

/**
 * Keeps a worker that fails again and again from being asked, although its health is green.
 *
 * ```text
 * closed ── so many failures in a row ──▶ open ── time passes ──▶ half open: one may try
 *   ▲                                      ▲                         │        │
 *   │                                      └──────── it fails ───────┘        │
 *   └────────────────────────────── it succeeds ──────────────────────────────┘
 * ```
 */
export class CircuitBreaker {
  readonly #options: CircuitOptions;
  readonly #clock: Clock;
  #failures = 0;
  #opensAgainAt: number | undefined;
  #trying = false;

  constructor(options: CircuitOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get state(): CircuitState {
    if (this.#opensAgainAt === undefined) return "closed";
    return this.#clock.monotonic() < this.#opensAgainAt ? "open" : "half_open";
  }

  /** True when the worker may be asked. */
  get allows(): boolean {
    return this.state === "closed" || this.state === "half_open" && !this.#trying;
  }

  /** Somebody asks the worker. */
  begin(): void {
    if (this.state === "half_open") this.#trying = true;
  }

  /** It answered. */
  succeeded(): void {
    this.#failures = 0;
    this.#opensAgainAt = undefined;
    this.#trying = false;
  }

  /** It did not. True when the circuit opens now. */
  failed(): boolean {
    const wasClosed = this.#opensAgainAt === undefined;
    this.#trying = false;
    if (++this.#failures < this.#options.failures && wasClosed) return false;
    this.#opensAgainAt = this.#clock.monotonic() + this.#options.openMs;
    return wasClosed;
  }

  /** It ended in a way that says nothing about the worker. */
  passed(): void {
    this.#trying = false;
  }
}
