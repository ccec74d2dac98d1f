// What a decoder may do with an input: decode it, or refuse it with a documented error.

import { assert, assertEquals } from "@std/assert";

/** Texts of errors that an engine of JavaScript throws, not this package. */
const INTERNAL =
  /cannot read|cannot set|is not a function|is not iterable|is not an object|cannot destructure|(?:undefined|null) is not (?:an object|a function|iterable)|of undefined|of null|cannot convert|call stack|uri malformed|uri error|invalid time value|invalid date|not a constructor|right-hand side|evaluating '|is not defined|invalid array length|invalid count|cannot mix|reading '|spread syntax/i;

/** The result of a decoder. */
export type Outcome<T> = { readonly value: T } | { readonly error: Error };

/** The errors that a decoder may throw: their names, and how their messages begin. */
export interface Refusals {
  readonly names: readonly string[];
  /** Must match the message, which names the value and says what to do. */
  readonly text?: RegExp;
}

/** Runs a decoder. Any error but a documented one fails the test. */
export async function outcomeOf<T>(
  decode: () => T | Promise<T>,
  refusals: Refusals,
): Promise<Outcome<T>> {
  try {
    return { value: await decode() };
  } catch (error) {
    return { error: refusal(error, refusals) };
  }
}

/** As {@linkcode outcomeOf}, for a decoder without a promise. */
export function syncOutcomeOf<T>(decode: () => T, refusals: Refusals): Outcome<T> {
  try {
    return { value: decode() };
  } catch (error) {
    return { error: refusal(error, refusals) };
  }
}

/** Returns the error if it is documented. */
export function refusal(error: unknown, { names, text = /./ }: Refusals): Error {
  if (!(error instanceof Error)) throw new Error(`threw ${String(error)}, which is no error`);
  const explain = `${error.name}: ${error.message}`;
  assert(names.includes(error.name), `expected one of ${names}, got ${explain}\n${error.stack}`);
  assert(text.test(error.message), `the message says too little: ${explain}\n${error.stack}`);
  // Values and causes are quoted, and may have any text.
  const own = error.message.replace(/"(?:[^"\\]|\\.)*"/gs, '""').slice(0, 2_000);
  assert(!INTERNAL.test(own), `an internal error got out: ${explain}\n${error.stack}`);
  return error;
}

/** Compares by JSON, which has no undefined members. */
export function assertSameJson(actual: unknown, expected: unknown): void {
  assertEquals(JSON.parse(JSON.stringify(actual)), JSON.parse(JSON.stringify(expected)));
}
