import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Maybe } from "../mailbox/engine.ts";
import type { Message } from "../mailbox/mailbox.ts";
import { messageMetrics, OUTCOME_LABELS } from "../telemetry/metrics.ts";
import {
  isMetering,
  isTracing,
  type OpenTelemetry,
  openTelemetry,
} from "../telemetry/open_telemetry.ts";
import { fail, messagingAttributes } from "../telemetry/spans.ts";
import { contextOf, traceIn } from "../telemetry/trace_context.ts";
import type { Decision } from "./handler.ts";

/** The decisions as metrics and spans name them. */
const OUTCOMES = {
  acknowledge: OUTCOME_LABELS.acknowledged,
  release: OUTCOME_LABELS.released,
  nack: OUTCOME_LABELS.nacked,
  deadLetter: OUTCOME_LABELS.deadLettered,
};

/** Calls `handle` within a span, and records its duration, where OpenTelemetry is registered. */
export async function observed<T, R>(
  message: Message<T, R>,
  mailbox: string,
  handle: () => Maybe<Decision>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<Decision> {
  let handling: Promise<Decision> | undefined;
  const work = () => handling ??= Promise.resolve(handle());
  try {
    const api = await openTelemetry();
    if (api === undefined) return await work();
    const began = clock.monotonic();
    const record = isMetering() ? messageMetrics(api)(mailbox) : undefined;
    const decision = isTracing() ? await traced(api, mailbox, message, work) : await work();
    record?.(OUTCOMES[decision.kind], (clock.monotonic() - began) / 1_000);
    return decision;
  } catch (error) {
    // A failing exporter must not fail the message.
    log.warn("message could not be traced or measured", { id: message.id, error });
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
