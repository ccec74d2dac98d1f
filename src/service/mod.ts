/**
 * HTTP services that stop gracefully, and pools of them. While a service stops, requests in flight finish
 * and new ones get 503 with code 5006. A `WorkerPool` sends these to another worker.
 *
 * @module
 */

export { checkCancellation, withCancellation } from "./cancellation.ts";
export { type Answer, type RequestTicket, RequestTracker } from "./request_tracker.ts";
export { ServiceGate, type ServiceGateOptions } from "./service_gate.ts";
export { drainable, type DrainableVariables } from "./drainable.ts";
export {
  type FetchHandler,
  type ServiceAddress,
  ServiceLoop,
  type ServiceLoopOptions,
} from "./service_loop.ts";
export {
  type TerminatingBody,
  terminatingErrorOf,
  terminatingResponse,
  type TerminatingResponseOptions,
} from "./terminating_response.ts";
export { WorkerPool, type WorkerStatus } from "./worker_pool.ts";
export type { Discover, WorkerList, WorkerPoolOptions } from "./pool_options.ts";
export type { HealthProbe, WorkerAddress, WorkerHealth } from "./worker_address.ts";
export type { CircuitOptions, CircuitState } from "./_circuit_breaker.ts";
export type {
  AttemptEvent,
  AttemptOutcome,
  CallContext,
  PoolCall,
  PoolEvents,
  PoolRequestOptions,
  RetryClass,
  WorkerEvent,
} from "./pool_call.ts";
export {
  CapacityError,
  isCapacityError,
  isNoWorkerError,
  isUnreachableError,
  NoWorkerError,
  UnreachableError,
  type UnreachableErrorOptions,
} from "./pool_errors.ts";
