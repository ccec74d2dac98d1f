import { show } from "../_checks.ts";
import { isStorable } from "./envelope.ts";
import { InvalidParameterError } from "./errors.ts";
import { MAX_BATCH, MAX_VISIBILITY_MS } from "./mailbox.ts";

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
  if (isStorable(id)) return id;
  throw new InvalidParameterError(
    `Invalid id: expected a text without NUL and unpaired surrogates, got ${show(id)}`,
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
