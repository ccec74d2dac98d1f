/** A worker, and where it is. */
export interface WorkerAddress {
  /** Unique in its pool; logs, spans and events name the worker by it. */
  readonly id: string;
  /** The root of its service, as in `http://10.0.0.7:8080`. */
  readonly url: string;
}

/** How a worker is doing. */
export interface WorkerHealth {
  /** False takes it out of the choice until it says otherwise. */
  readonly healthy: boolean;
  /** How many more requests it can take; untold, it counts as fuller the more it has from here. */
  readonly freeSlots?: number;
}

/** Asks a worker how it is doing. One that throws, or takes too long, is not healthy. */
export type HealthProbe = (
  worker: WorkerAddress,
  context: { readonly signal: AbortSignal },
) => Promise<WorkerHealth | boolean>;
