import { backoffMs } from "../_backoff.ts";
import { isRetryLaterError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { DeadLetterPolicy } from "../mailbox/dead_letter_policy.ts";
import {
  type DeadLetterReason,
  MAX_VISIBILITY_MS,
  type Message,
  type NackOptions,
} from "../mailbox/mailbox.ts";
import type { Handler, MessageContext } from "./handler.ts";
import { describeIssues, type StandardSchema } from "./schema.ts";
import { ValidatedMessage } from "./_validated_message.ts";

/** What is to become of a message. */
export type Verdict =
  | { readonly kind: "acknowledge" }
  | { readonly kind: "release" }
  | { readonly kind: "nack"; readonly options: NackOptions; readonly error?: unknown }
  | { readonly kind: "bury"; readonly reason: DeadLetterReason; readonly error: unknown };

const DONE: Verdict = { kind: "acknowledge" };
const UNTOUCHED: Verdict = { kind: "release" };

/** What the judgement depends on. */
export interface Rules<T, R> {
  readonly handler: Handler<T, R>;
  readonly policy: DeadLetterPolicy | undefined;
  readonly schema: StandardSchema<T> | undefined;
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly log: Log;
}

/** Has the message worked on, and tells what is to become of it. Never rejects. */
export async function judge<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  rules: Rules<T, R>,
): Promise<Verdict> {
  const exhausted = rules.policy?.beforeWork(message.deliveryCount);
  if (exhausted !== undefined) return bury(exhausted);
  try {
    let input = message;
    if (rules.schema !== undefined) {
      const result = await rules.schema["~standard"].validate(message.body);
      if (result.issues !== undefined) {
        const error = describeIssues(result.issues);
        return bury({ reason: "schema", error });
      }
      input = new ValidatedMessage(message, result.value);
    }
    await rules.handler(input, context);
    return DONE;
  } catch (error) {
    if (message.settling !== undefined) await message.settling;
    return afterFailure(message, context, rules, error);
  }
}

function afterFailure<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  { policy, log, minBackoffMs, maxBackoffMs }: Rules<T, R>,
  error: unknown,
): Verdict {
  const { id, deliveryCount } = message;
  if (message.finalized) {
    log.warn(`the handler of message ${id} failed after it had settled the message`, { error });
    return DONE;
  }
  // The handler stopped because it was cancelled; this is not a failed attempt.
  if (context.reason !== undefined) return UNTOUCHED;
  const backoff = backoffMs(deliveryCount, minBackoffMs, maxBackoffMs);
  if (isRetryLaterError(error)) {
    const visibilityTimeoutMs = Math.min(error.delayMs ?? backoff, MAX_VISIBILITY_MS);
    log.debug(`message ${id} is tried again later`, { error, visibilityTimeoutMs });
    return { kind: "nack", options: { visibilityTimeoutMs, spendsAttempt: false }, error };
  }
  const hopeless = policy?.afterFailure(error, deliveryCount);
  if (hopeless !== undefined) return bury(hopeless, error);
  log.warn(`message ${id} failed, attempt ${deliveryCount}`, {
    error,
    visibilityTimeoutMs: backoff,
  });
  const spendsAttempt = policy === undefined || !policy.excuses(error);
  return { kind: "nack", options: { visibilityTimeoutMs: backoff, spendsAttempt }, error };
}

function bury(
  reason: DeadLetterReason,
  error: unknown = reason.error ?? reason.reason,
): Verdict {
  return { kind: "bury", reason, error };
}
