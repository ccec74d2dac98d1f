import { passOrFail, type Score } from "../score.ts";

/** As much of a value as a reason shows. */
const LONGEST_SHOWN = 80;

/** The output is what was expected, to the last part. */
export function exactMatch<T>(output: T, expected: T | undefined): Score {
  return passOrFail(isSame(output, needed(expected)), difference(output, expected));
}

/**
 * The output contains what was expected: a text, or all of several. Case counts; see `adapt` for when it
 * should not.
 */
export function contains(output: string, expected: string | readonly string[] | undefined): Score {
  if (typeof output !== "string") {
    throw new TypeError(`Cannot look for a text in an output that is none: ${excerpt(output)}`);
  }
  const texts = [needed(expected)].flat() as readonly string[];
  const missing = texts.filter((text) => !output.includes(text));
  if (missing.length === 0) return passOrFail(true);
  const reason = `${missing.map(excerpt).join(" and ")} not in ${excerpt(output)}`;
  return { value: 1 - missing.length / texts.length, passed: false, reason };
}

function needed<T>(expected: T | undefined): T {
  if (expected !== undefined) return expected;
  throw new TypeError('The sample has no "expected" to compare the output with');
}

function difference(output: unknown, expected: unknown): string | undefined {
  if (isSame(output, expected)) return undefined;
  return `expected ${excerpt(expected)}, got ${excerpt(output)}`;
}

function excerpt(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

/** Compares what JSON can carry; the order of keys does not count. */
function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [own, other] = [a, b] as unknown as readonly Readonly<Record<string, unknown>>[];
  const keys = Object.keys(own!);
  return keys.length === Object.keys(other!).length &&
    keys.every((key) => Object.hasOwn(other!, key) && isSame(own![key], other![key]));
}
