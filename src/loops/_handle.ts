import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { isRetryLaterError } from "../errors.ts";
import type { LeaseExtender } from "../lease/lease_extender.ts";
import type { Work } from "../lifecycle/base_loop.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Log } from "../log.ts";
import type { DeadLetterPolicy } from "../mailbox/dead_letters.ts";
import {
  type DeadLetterReason,
  type Mailbox,
  MAX_VISIBILITY_MS,
  type Message,
  type NackOptions,
} from "../mailbox/mailbox.ts";
import { messageMetrics } from "../telemetry/metrics.ts";
import {
  isMetering,
  isTracing,
  type OpenTelemetry,
  openTelemetry,
} from "../telemetry/open_telemetry.ts";
import { fail, messagingAttributes } from "../telemetry/spans.ts";
import { contextOf, traceIn } from "../telemetry/trace_context.ts";
import type { Handler, MessageContext, OnDeadLetter } from "./handler.ts";
import { describeIssues, type StandardSchema, withBody } from "./schema.ts";

/** The options of a `MailboxLoop`, checked and complete, and what its run uses of the loop. */
export interface MailboxRunConfig<T, R> {
  readonly mailbox: Mailbox<T, R>;
  readonly handler: Handler<T, R>;
  readonly concurrency: number;
  readonly prefetch: number;
  readonly extender: LeaseExtender;
  readonly policy: DeadLetterPolicy | undefined;
  readonly onDeadLetter: OnDeadLetter<T, R> | undefined;
  readonly schema: StandardSchema<T> | undefined;
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly clock: Clock;
  readonly heartbeat: Heartbeat;
  readonly log: Log;
  /** Undefined while the loop may receive; otherwise resolves when it may. */
  readonly admission: (stopping: AbortSignal) => Promise<void> | undefined;
  readonly track: (work: Work) => void;
  readonly untrack: (work: Work) => void;
}

/** How to settle a message after its handler has ended. */
export type Decision =
  | { readonly kind: "acknowledge" }
  | { readonly kind: "release" }
  | { readonly kind: "nack"; readonly options: NackOptions; readonly error?: unknown }
  | { readonly kind: "deadLetter"; readonly reason: DeadLetterReason; readonly error: unknown };

/** The decisions as metrics and spans name them. */
const OUTCOMES = {
  acknowledge: "acknowledged",
  release: "released",
  nack: "nacked",
  deadLetter: "dead_lettered",
} as const;

/** Validates the body, calls the handler, and decides how to settle the message. Never rejects. */
export async function handle<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  config: MailboxRunConfig<T, R>,
): Promise<Decision> {
  const exhausted = config.policy?.beforeWork(message.deliveryCount);
  if (exhausted !== undefined) return deadLetter(exhausted);
  try {
    let input = message;
    if (config.schema !== undefined) {
      const result = await config.schema["~standard"].validate(message.body);
      if (result.issues !== undefined) {
        return deadLetter({ reason: "schema", error: describeIssues(result.issues) });
      }
      input = withBody(message, result.value);
    }
    await config.handler(input, context);
    return { kind: "acknowledge" };
  } catch (error) {
    if (message.settling !== undefined) await message.settling;
    return afterFailure(message, context, config, error);
  }
}

function afterFailure<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  { policy, log, minBackoffMs, maxBackoffMs }: MailboxRunConfig<T, R>,
  error: unknown,
): Decision {
  const { id, deliveryCount } = message;
  if (message.finalized) {
    log.warn(`the handler of message ${id} failed after it had settled the message`, { error });
    return { kind: "acknowledge" };
  }
  // The handler stopped because it was cancelled; this is not a failed attempt.
  if (context.reason !== undefined) return { kind: "release" };
  const backoff = backoffMs(deliveryCount, minBackoffMs, maxBackoffMs);
  if (isRetryLaterError(error)) {
    const delayMs = Math.min(error.delayMs ?? backoff, MAX_VISIBILITY_MS);
    log.debug(`message ${id} is tried again later`, { error, delayMs });
    return { kind: "nack", options: { delayMs, countsAttempt: false }, error };
  }
  const reason = policy?.afterFailure(error, deliveryCount);
  if (reason !== undefined) return deadLetter(reason, error);
  log.warn(`message ${id} failed, attempt ${deliveryCount}`, { error, delayMs: backoff });
  const countsAttempt = policy === undefined || !policy.excuses(error);
  return { kind: "nack", options: { delayMs: backoff, countsAttempt }, error };
}

function deadLetter(
  reason: DeadLetterReason,
  error: unknown = reason.error ?? reason.reason,
): Decision {
  return { kind: "deadLetter", reason, error };
}

/** Calls `handle` within a span, and records its duration, where OpenTelemetry is registered. */
export async function handleObserved<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  config: MailboxRunConfig<T, R>,
): Promise<Decision> {
  let handling: Promise<Decision> | undefined;
  const work = () => handling ??= handle(message, context, config);
  const { clock, mailbox, log } = config;
  try {
    const api = await openTelemetry();
    if (api === undefined) return await work();
    const began = clock.monotonic();
    const record = isMetering() ? messageMetrics(api)(mailbox.name) : undefined;
    const decision = isTracing() ? await traced(api, mailbox.name, message, work) : await work();
    record?.(OUTCOMES[decision.kind], (clock.monotonic() - began) / 1_000);
    return decision;
  } catch (error) {
    // A failing exporter must not fail the message.
    log.warn(`could not trace or measure message ${message.id}`, { error });
    return await work();
  }
}

/** Runs `work` in a span that continues the trace of the message. */
async function traced<T, R>(
  api: OpenTelemetry,
  mailbox: string,
  message: Message<T, R>,
  work: () => Promise<Decision>,
): Promise<Decision> {
  const parent = contextOf(api, traceIn(message.headers));
  const span = api.trace.getTracer("lastcall").startSpan(`process ${mailbox}`, {
    kind: api.SpanKind.CONSUMER,
    attributes: {
      ...messagingAttributes(mailbox, "process"),
      "messaging.message.id": message.id,
      "lastcall.attempt": message.deliveryCount,
    },
  }, parent);
  const decision = await api.context.with(api.trace.setSpan(parent, span), work);
  span.setAttribute("lastcall.outcome", OUTCOMES[decision.kind]);
  if (decision.kind === "nack" || decision.kind === "deadLetter") fail(api, span, decision.error);
  span.end();
  return decision;
}
