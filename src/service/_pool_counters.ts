import type { Metric, MetricSample } from "../telemetry/metrics.ts";
import { ATTEMPT_OUTCOMES, type AttemptEvent, type AttemptOutcome } from "./pool_call.ts";
import type { Worker } from "./_worker.ts";

/** The failures after which the pool tries another worker. */
const RETRIED = ["terminating", "unreachable", "capacity"] as const;

/** Counts attempts, retries and health checks. Workers change, so none has its own label. */
export class PoolCounters {
  readonly #attempts = zeros(ATTEMPT_OUTCOMES);
  readonly #retries = zeros(RETRIED);
  readonly #checks = { healthy: 0, unhealthy: 0 };
  #noneHealthy = 0;

  attempted({ outcome, retried, noneHealthy }: AttemptEvent): void {
    this.#attempts[outcome]++;
    if (retried) this.#retries[outcome as typeof RETRIED[number]]++;
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
    const one = (value: number): MetricSample[] => [{ labels: { pool }, value }];
    const each = (label: string, counts: Readonly<Record<string, number>>): MetricSample[] =>
      Object.entries(counts).map(([name, value]) => ({ labels: { pool, [label]: name }, value }));
    return [
      {
        name: "lastcall_pool_attempts_total",
        help: "Requests to workers, by outcome",
        type: "counter",
        samples: each("outcome", this.#attempts),
      },
      {
        name: "lastcall_pool_retries_total",
        help: "Requests that were retried on another worker, by the failure before",
        type: "counter",
        samples: each("reason", this.#retries),
      },
      {
        name: "lastcall_pool_none_healthy_total",
        help: "Requests to an unhealthy worker because none was healthy",
        type: "counter",
        samples: one(this.#noneHealthy),
      },
      {
        name: "lastcall_pool_health_checks_total",
        help: "Health checks of workers, by result",
        type: "counter",
        samples: each("health", this.#checks),
      },
      {
        name: "lastcall_pool_workers",
        help: "Workers by state",
        type: "gauge",
        samples: each("state", states),
      },
      {
        name: "lastcall_pool_in_flight",
        help: "Requests in flight to workers",
        type: "gauge",
        samples: one(inFlight),
      },
    ];
  }
}

function zeros<K extends AttemptOutcome>(names: readonly K[]): Record<K, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<K, number>;
}
