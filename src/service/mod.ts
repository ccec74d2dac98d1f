/**
 * HTTP services that stop gracefully, and pools of them. While a service stops, requests in flight finish
 * and new ones get 503 with code 5006. A `WorkerPool` sends these to another worker.
 *
 * @module
 */

export { checkCancellation, withCancellation } from "./cancellation.ts";
export { type Answer, type RequestTicket, RequestTracker } from "./request_tracker.ts";
export {
  drainable,
  type DrainableVariables,
  ServiceGate,
  type ServiceGateOptions,
} from "./service_gate.ts";
export {
  type FetchHandler,
  type ServiceAddress,
  ServiceLoop,
  type ServiceLoopOptions,
} from "./service_loop.ts";
export { WorkerPool, type WorkerStatus } from "./worker_pool.ts";
export type {
  AttemptEvent,
  AttemptOutcome,
  CallContext,
  CircuitOptions,
  CircuitState,
  Discover,
  HealthProbe,
  PoolCall,
  PoolEvents,
  PoolRequestOptions,
  RetryClass,
  WorkerAddress,
  WorkerEvent,
  WorkerHealth,
  WorkerList,
  WorkerPoolOptions,
} from "./pool_options.ts";
export {
  CapacityError,
  isCapacityError,
  isNoWorkerError,
  isUnreachableError,
  NoWorkerError,
  type TerminatingBody,
  terminatingErrorOf,
  terminatingResponse,
  type TerminatingResponseOptions,
  UnreachableError,
  type UnreachableErrorOptions,
} from "./service_errors.ts";
