/** The id and URL of a worker. */
export interface WorkerAddress {
  /** The name in logs, spans and events, unique in its pool. */
  readonly id: string;
  /** The base URL of its service, as in `http://10.0.0.7:8080`. */
  readonly url: string;
}

/** The health of a worker. */
export interface WorkerHealth {
  /** False when the worker should get no requests. */
  readonly healthy: boolean;
  /** How many more requests the worker accepts. @default {derived from the requests in flight} */
  readonly freeSlots?: number;
}

/** Checks the health of a worker. A worker is unhealthy when this rejects or times out. */
export type HealthProbe = (
  worker: WorkerAddress,
  context: { readonly signal: AbortSignal },
) => Promise<WorkerHealth | boolean>;

/** Returns the URL of a path of a worker's service. */
export function workerUrl(root: string, path: string): string {
  return root.replace(/\/$/, "") + path;
}
