import type { TraceContext } from "../telemetry/trace_context.ts";
import type { Delivery } from "./engine.ts";
import type { DeadLetter, DeadLetterReason } from "./mailbox.ts";

/** Writes the letter for a delivery: everything that is known of the message, and why it is here. */
export function deadLetterOf<T>(
  delivery: Delivery<unknown>,
  content: { readonly body: T } | { readonly raw: string },
  checkpoint: unknown,
  reason: DeadLetterReason,
  deadAt: number,
  trace?: TraceContext,
): DeadLetter<T> {
  const { id, deliveryCount, enqueuedAt, replyTo } = delivery;
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  return {
    id,
    ...content,
    ...reason,
    deliveryCount,
    enqueuedAt,
    deadAt,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(trace === undefined ? {} : { trace }),
  };
}
