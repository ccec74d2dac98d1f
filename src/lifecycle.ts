/**
 * What loops, groups and views of your own are made of: the base classes, their events, the watchdog, and
 * the runtime and clock that they run on.
 *
 * @example Print each phase of a stop
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 * import type { PhaseEvent } from "@lastcall/lastcall/lifecycle";
 *
 * const group = new LoopGroup([new StepLoop("ticker", ({ sleep }) => sleep(10))]);
 * group.on("phase", ({ phase }: PhaseEvent) => console.log(phase));
 * await group.run({ maxIterations: 3 });
 * ```
 *
 * @module
 */

export type { Cancel, SleepOptions } from "./clock.ts";
export type { CancelReason, RetryLaterOptions } from "./errors.ts";
export type {
  AsyncScope,
  BeatRecord,
  EventLoopWatch,
  EventLoopWatchOptions,
  HttpServer,
  ModuleThread,
  PlainResponse,
  ProcessIdentity,
  RequestHandler,
  Runtime,
  ServeOptions,
  SignalName,
  Terminal,
} from "./runtime.ts";
export { BaseGroup, type StopView } from "./lifecycle/base_group.ts";
export type { Work } from "./lifecycle/base_loop.ts";
export type { DrainReportInit } from "./lifecycle/drain_report.ts";
export type {
  GroupEvents,
  LoopEvent,
  LoopState,
  Phase,
  PhaseEvent,
  Problem,
  StallEvent,
} from "./lifecycle/group_events.ts";
export type { BaseGroupOptions, FailurePolicy, RestartOptions } from "./lifecycle/group_options.ts";
export type { RecycleOptions } from "./lifecycle/recycle.ts";
export type {
  HealthSnapshot,
  LoopHealth,
  RunEnd,
  StopProgress,
} from "./lifecycle/health_snapshot.ts";
export type { InFlight, MessageInFlight, MessagesAhead } from "./lifecycle/runnable.ts";
export type {
  InstallOptions,
  SecondSignal,
  ShutdownCallback,
} from "./lifecycle/shutdown_coordinator.ts";
export { Heartbeat, Watchdog, type WatchdogOptions } from "./lifecycle/watchdog.ts";
export type { LeaseCounters, LeaseOptions, Leases, LeaseSubject } from "./lease/lease_extender.ts";
export type { BatchContext } from "./loops/batch_loop.ts";
export type { Around } from "./loops/handler.ts";
export type { MailboxLoopSettings } from "./loops/mailbox_loop.ts";
export type { SchemaIssue, SchemaResult } from "./loops/schema.ts";
export type { DrainView, DrainViewOptions, Watchable } from "./terminal/show_drain.ts";
