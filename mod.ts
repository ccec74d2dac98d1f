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

export { type Clock, systemClock } from "./src/clock.ts";
export {
  CancelledError,
  isCancelledError,
  isLeaseLostError,
  isRetryLaterError,
  isTerminatingError,
  LeaseLostError,
  RetryLaterError,
  TERMINATING,
  TerminatingError,
} from "./src/errors.ts";
export { libraryLog } from "./src/library_log.ts";
export { consoleLog, type Log, silentLog } from "./src/log.ts";

export type {
  MessageCounts,
  Runnable,
  RunOptions,
  ShutdownOptions,
} from "./src/lifecycle/runnable.ts";
export { BaseLoop, type LoopContext, type LoopOptions } from "./src/lifecycle/base_loop.ts";
export { ShutdownCoordinator } from "./src/lifecycle/shutdown_coordinator.ts";
export { LoopGroup, type LoopGroupOptions } from "./src/group/loop_group.ts";
export type { LoopGroupRunOptions } from "./src/lifecycle/base_group.ts";
export type { Resource } from "./src/lifecycle/resources.ts";
export type { StopReason } from "./src/lifecycle/group_events.ts";
export {
  DrainReport,
  GroupFailedError,
  type LoopReport,
  type Outcome,
} from "./src/lifecycle/drain_report.ts";
export { showDrain } from "./src/terminal/show_drain.ts";

export type {
  DeadLetter,
  DeadLetterReason,
  Mailbox,
  MailboxOptions,
  MailboxStats,
  Message,
  MessageHeaders,
  NackOptions,
  ReceiveOptions,
  ReplyMailbox,
  SendOptions,
  SendResult,
} from "./src/mailbox/mailbox.ts";
export {
  InvalidParameterError,
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
  MailboxError,
  MailboxFullError,
  MessageFinalizedError,
  ReceiptHandleExpiredError,
  ReplyNotAvailableError,
  RequestTimeoutError,
  SerializationError,
} from "./src/mailbox/errors.ts";
export { type DeadLetterOptions, DeadLetterPolicy } from "./src/mailbox/dead_letters.ts";
export { InMemoryMailbox, type InMemoryMailboxOptions } from "./src/mailbox/in_memory_mailbox.ts";
export { openMailbox, type OpenMailboxOptions } from "./src/engines/open_mailbox.ts";
export {
  type Lease,
  LeaseExtender,
  type LeaseExtenderOptions,
} from "./src/lease/lease_extender.ts";

export { type Step, type StepContext, StepLoop } from "./src/loops/step_loop.ts";
export {
  type BackoffOptions,
  MailboxLoop,
  type MailboxLoopOptions,
} from "./src/loops/mailbox_loop.ts";
export { type BatchHandler, BatchLoop, type BatchLoopOptions } from "./src/loops/batch_loop.ts";
export type { Handler, HandlerContext, OnDeadLetter } from "./src/loops/handler.ts";
export type { StandardSchema } from "./src/loops/schema.ts";
export { redrive, type RedriveOptions } from "./src/loops/redrive.ts";
