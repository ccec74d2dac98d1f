/**
 * Runs message loops and small services so that a deploy, a Ctrl+C, a crash or a stuck handler never
 * loses a message. On Deno, Bun and Node.
 *
 * @example Two loops with one deadline. With `main()` instead of `run()` they run until SIGTERM or Ctrl+C
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 *
 * const orders = new StepLoop("orders", async ({ sleep }) => await sleep(10));
 * const emails = new StepLoop("emails", async ({ sleep }) => await sleep(25));
 * const group = new LoopGroup([orders, emails], { shutdownTimeoutMs: 10_000 });
 * console.log(String(await group.run({ maxIterations: 3 })));
 * ```
 *
 * @module
 */

import { detectRuntime } from "./runtime_adapters/detect.ts";
import { provideRuntime } from "./src/runtime.ts";

provideRuntime(detectRuntime);

export { type Cancel, type Clock, type SleepOptions, systemClock } from "./src/clock.ts";
export {
  CancelledError,
  type CancelReason,
  DeadlineExceededError,
  isCancelledError,
  isLeaseLostError,
  isRetryLaterError,
  isTerminatingError,
  LeaseLostError,
  RetryLaterError,
  type RetryLaterOptions,
  TERMINATING,
  TerminatingError,
} from "./src/errors.ts";
export { type Random, seededRandom, systemRandom } from "./src/random.ts";
export { libraryLog } from "./src/library_log.ts";
export { consoleLog, type Log, silentLog } from "./src/log.ts";
export {
  type AsyncScope,
  type BeatRecord,
  type EventLoopWatch,
  type EventLoopWatchOptions,
  type HttpServer,
  type ModuleThread,
  type RequestHandler,
  type Runtime,
  type ServeOptions,
  type SignalName,
  type Terminal,
} from "./src/runtime.ts";

export type {
  InFlight,
  MessageCounts,
  Runnable,
  RunOptions,
  ShutdownOptions,
} from "./src/lifecycle/runnable.ts";
export {
  BaseLoop,
  type LoopContext,
  type LoopOptions,
  type Work,
} from "./src/lifecycle/base_loop.ts";
export {
  type InstallOptions,
  type SecondSignal,
  type ShutdownCallback,
  ShutdownCoordinator,
} from "./src/lifecycle/shutdown_coordinator.ts";
export { LoopGroup, type LoopGroupOptions } from "./src/group/loop_group.ts";
export { BaseGroup, type LoopGroupRunOptions, type StopView } from "./src/lifecycle/base_group.ts";
export type {
  BaseGroupOptions,
  FailurePolicy,
  RestartOptions,
} from "./src/lifecycle/group_options.ts";
export type { Resource } from "./src/lifecycle/resources.ts";
export type {
  GroupEvents,
  LoopEvent,
  LoopState,
  Phase,
  PhaseEvent,
  Problem,
  StallEvent,
  StopReason,
} from "./src/lifecycle/group_events.ts";
export {
  DrainReport,
  type DrainReportInit,
  GroupFailedError,
  type LoopReport,
  type Outcome,
} from "./src/lifecycle/drain_report.ts";
export type {
  HealthSnapshot,
  LoopHealth,
  RunEnd,
  StopProgress,
} from "./src/lifecycle/health_snapshot.ts";
export {
  type DrainView,
  type DrainViewOptions,
  showDrain,
  type Watchable,
} from "./src/terminal/show_drain.ts";
export { Heartbeat, Watchdog, type WatchdogOptions } from "./src/lifecycle/watchdog.ts";
export { type Step, type StepContext, StepLoop } from "./src/loops/step_loop.ts";

export { FULL_CAPABILITIES, MAX_BATCH, MAX_VISIBILITY_MS } from "./src/mailbox/mailbox.ts";
export type {
  Capabilities,
  DeadLetter,
  DeadLetterReason,
  Mailbox,
  Message,
  MessageHeaders,
  NackOptions,
  PeekedMessage,
  ReceiveOptions,
  ReplyAddress,
  ReplyMailbox,
  SendOptions,
  Settlement,
} from "./src/mailbox/mailbox.ts";
export type { MailboxOptions, MailboxResolver } from "./src/mailbox/mailbox.ts";
export {
  InvalidParameterError,
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
  MailboxError,
  type MailboxErrorName,
  MailboxFullError,
  MessageFinalizedError,
  ReceiptHandleExpiredError,
  ReplyNotAvailableError,
  SerializationError,
} from "./src/mailbox/errors.ts";
export { InMemoryMailbox, type InMemoryMailboxOptions } from "./src/mailbox/in_memory_mailbox.ts";
export { EngineMailbox } from "./src/mailbox/engine_mailbox.ts";
export type { Envelope, EnvelopeOptions } from "./src/mailbox/envelope.ts";
export { type Codec, identityCodec, jsonCodec, type TracedBody } from "./src/mailbox/codec.ts";
export type {
  Delivery,
  Engine,
  Entry,
  Maybe,
  OffThreadExtender,
  OffThreadModule,
  OffThreadPlan,
  Received,
  StoredMessage,
} from "./src/mailbox/engine.ts";
export { redrive, type RedriveOptions } from "./src/loops/redrive.ts";
export {
  type DeadLetterOptions,
  DeadLetterPolicy,
  type ErrorClass,
} from "./src/mailbox/dead_letters.ts";
export {
  LeaseExtender,
  type LeaseExtenderOptions,
  type LeaseOptions,
  type LeaseSubject,
} from "./src/lease/lease_extender.ts";
export type { Lease, LeaseCounters } from "./src/lease/lease_extender.ts";
export type { Leases } from "./src/lease/lease_extender.ts";
export {
  type BackoffOptions,
  MailboxLoop,
  type MailboxLoopOptions,
} from "./src/loops/mailbox_loop.ts";
export type { Handler, HandlerContext, OnDeadLetter } from "./src/loops/handler.ts";
export { AgentLoop, AgentLoop as MainLoop } from "./src/agents/agent_loop.ts";
export type {
  AgentBundle,
  AgentContext,
  AgentLoopOptions,
  AttemptEnd,
  ExecuteOptions,
  Prepared,
} from "./src/agents/agent_options.ts";
export { EvalLoop } from "./src/evals/eval_loop.ts";
export type { AgentRequest, AgentResult, ResultError } from "./src/agents/agent_request.ts";
export {
  type Adapter,
  type AdapterContext,
  NoAnswerError,
  type Prompt,
  type RunContext,
} from "./src/agents/adapter.ts";
export {
  type Budget,
  BudgetExceededError,
  BudgetTracker,
  type TokenUsage,
} from "./src/agents/budget.ts";
export type { TraceContext } from "./src/telemetry/trace_context.ts";
export { type Role, Session, type SessionRecord, type Turn } from "./src/agents/session.ts";
export type { SchemaIssue, SchemaResult, StandardSchema } from "./src/loops/schema.ts";
export type { MailboxOpener } from "./src/engines/_kit/registration.ts";
export { openMailbox, type OpenMailboxOptions } from "./src/engines/open_mailbox.ts";
export type { MailboxUrl } from "./src/engines/_kit/mailbox_url.ts";
