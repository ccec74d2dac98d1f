import type { Clock } from "../clock.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { messageMetrics } from "../telemetry/message_metrics.ts";
import {
  isMetering,
  isTracing,
  type OpenTelemetry,
  openTelemetry,
} from "../telemetry/open_telemetry.ts";
import { fail, messagingAttributes } from "../telemetry/spans.ts";
import { contextOf } from "../telemetry/trace_context.ts";
import type { MessageContext } from "./handler.ts";
import { judge, type Rules, type Verdict } from "./_verdict.ts";

/** The verdicts as others know them. */
const OUTCOMES = {
  acknowledge: "acknowledged",
  release: "released",
  nack: "nacked",
  bury: "buried",
} as const;

/** Where the work comes from, beside the rules for it. */
interface Place<T, R> extends Rules<T, R> {
  readonly mailbox: Mailbox<T, R>;
  readonly clock: Clock;
}

/** Judges a message like `judge`, and tells whoever has registered with OpenTelemetry how it goes. */
export async function judgeObserved<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  place: Place<T, R>,
): Promise<Verdict> {
  let judging: Promise<Verdict> | undefined;
  const work = () => judging ??= judge(message, context, place);
  const { clock, mailbox, log } = place;
  try {
    const api = await openTelemetry();
    if (api === undefined) return await work();
    const began = clock.monotonic();
    const note = isMetering() ? messageMetrics(api)(mailbox.name) : undefined;
    const verdict = isTracing() ? await traced(api, mailbox.name, message, work) : await work();
    note?.(OUTCOMES[verdict.kind], (clock.monotonic() - began) / 1_000);
    return verdict;
  } catch (error) {
    // Work is no worse for it when somebody cannot watch.
    log.warn(`could not trace or measure message ${message.id}`, { error });
    return await work();
  }
}

/** Has the work done within a span of the message's trace, which what the handler does goes on with. */
async function traced<T, R>(
  api: OpenTelemetry,
  mailbox: string,
  message: Message<T, R>,
  work: () => Promise<Verdict>,
): Promise<Verdict> {
  const parent = contextOf(api, message.trace);
  const span = api.trace.getTracer("lastcall").startSpan(`process ${mailbox}`, {
    kind: api.SpanKind.CONSUMER,
    attributes: {
      ...messagingAttributes(mailbox, "process"),
      "messaging.message.id": message.id,
      "lastcall.attempt": message.deliveryCount,
    },
  }, parent);
  const verdict = await api.context.with(api.trace.setSpan(parent, span), work);
  span.setAttribute("lastcall.outcome", OUTCOMES[verdict.kind]);
  if (verdict.kind === "nack" || verdict.kind === "bury") fail(api, span, verdict.error);
  span.end();
  return verdict;
}
