import { show } from "../_checks.ts";
import { isTraceContext, type TraceContext } from "../telemetry/trace_context.ts";
import type { StoredReplyAddress } from "./engine.ts";
import { InvalidParameterError } from "./errors.ts";
import { MAX_BATCH, MAX_VISIBILITY_MS, type ReplyAddress } from "./mailbox.ts";

/** Refuses a visibility timeout that no engine takes. */
export function checkVisibility(value: number): number {
  return checkRange("visibilityTimeoutMs", value, MAX_VISIBILITY_MS);
}

/** Refuses a delay that no engine takes. */
export function checkDelay(value: number): number {
  return checkRange("delayMs", value, MAX_VISIBILITY_MS);
}

/** Refuses a wait that is none. */
export function checkWait(value: number): number {
  return checkRange("waitTimeMs", value, Infinity);
}

/** Refuses a number of messages that cannot be received at once. */
export function checkMaxMessages(value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > MAX_BATCH) {
    throw new InvalidParameterError(
      `Invalid maxMessages: expected a whole number from 1 to ${MAX_BATCH}, got ${show(value)}`,
    );
  }
  return value;
}

/** Refuses a name that could not be told apart in logs, keys and file names. */
export function checkMailboxName(name: string): string {
  // Dead letters have the name of their mailbox and an ending of their own.
  if (typeof name !== "string" || !/^[\w.:@/-]{1,180}?(\.dead)*$/.test(name)) {
    throw new InvalidParameterError(
      `Invalid mailbox name: expected 1 to 180 letters, digits or any of _ . : @ / -, got ${
        show(name)
      }`,
    );
  }
  return name;
}

/** Refuses an id that some engine could not store, or would store as another. */
export function checkId(id: string): string {
  if (typeof id === "string" && isStorable(id)) return id;
  throw new InvalidParameterError(
    `Invalid id: expected a text without NUL and unpaired surrogates, got ${show(id)}`,
  );
}

/** Refuses a reply address that no reply could be sent to. */
export function checkReplyTo<R>(
  replyTo: ReplyAddress<R> | undefined,
): StoredReplyAddress | undefined {
  if (replyTo === undefined) return undefined;
  const name: unknown = typeof replyTo === "object" ? replyTo?.name : replyTo;
  if (typeof name === "string" && isStorable(name)) return replyTo as StoredReplyAddress;
  throw new InvalidParameterError(
    `Invalid replyTo: expected a mailbox or its name, without NUL and unpaired surrogates, got ${
      show(replyTo)
    }`,
  );
}

/** PostgreSQL and some drivers of SQLite store no NUL; UTF-8 has no surrogates. */
function isStorable(text: string): boolean {
  return !/\0|\p{Cs}/u.test(text);
}

/** Refuses a trace that nobody could go on with. */
export function checkTrace(trace: TraceContext): TraceContext {
  if (isTraceContext(trace)) return trace;
  throw new InvalidParameterError(
    'Invalid trace: expected a traceparent like "00-<32 hex digits>-<16>-<2>", and a tracestate of ' +
      `at most 512 characters if any, got ${show((trace as TraceContext | null)?.traceparent)}`,
  );
}

function checkRange(name: string, value: number, max: number): number {
  if (typeof value !== "number" || Number.isNaN(value) || value < 0 || value > max) {
    throw new InvalidParameterError(
      `Invalid ${name}: expected milliseconds from 0 to ${max}, got ${show(value)}`,
    );
  }
  return value;
}
