import type { Metric, MetricSample } from "../health/metric_source.ts";
import { ATTEMPT_OUTCOMES, type AttemptEvent, type AttemptOutcome } from "./pool_call.ts";
import type { Worker } from "./_worker.ts";

/** The classes of failures after which another worker was asked. */
const RETRIED = ["terminating", "unreachable", "capacity"] as const;

/** Counts what a pool does. Workers come and go, so none has a label of its own. */
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
        help: "Requests to workers, by what became of them",
        type: "counter",
        samples: each("outcome", this.#attempts),
      },
      {
        name: "lastcall_pool_retries_total",
        help: "Requests that went on to another worker, by what the one before failed with",
        type: "counter",
        samples: each("reason", this.#retries),
      },
      {
        name: "lastcall_pool_none_healthy_total",
        help: "Requests to a worker although none was healthy",
        type: "counter",
        samples: one(this.#noneHealthy),
      },
      {
        name: "lastcall_pool_health_checks_total",
        help: "Health checks of workers, by what they told",
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
        help: "Requests that workers have from here",
        type: "gauge",
        samples: one(inFlight),
      },
    ];
  }
}

function zeros<K extends AttemptOutcome>(names: readonly K[]): Record<K, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<K, number>;
}
