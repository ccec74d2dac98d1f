/**
 * Checks of options and arguments, the same for constructors and calls of loops, groups and mailboxes. Each
 * throws before anything has started, and names the option and its value:
 *
 * - `TypeError`: the value has the wrong type or form, such as a text in place of a number, a word that is
 *   not in the list, or a name with a character that is not allowed.
 * - `RangeError`: a number is outside of its range, is `NaN`, or is not whole where it must be.
 *
 * `InvalidParameterError` of `mailbox/errors.ts` is for a well-formed value that one mailbox cannot take: a
 * body above its limit, a URL or client that its engine cannot use, a delay that its engine does not have.
 *
 * @module
 */

/** The longest visibility timeout: 12 hours, the limit of Amazon SQS. */
export const MAX_VISIBILITY_MS = 43_200_000;

/** Returns `value` if it is a duration from 0 to `max`, in milliseconds. `Infinity` means no limit. */
export function checkDuration(name: string, value: number, max: number = Infinity): number {
  if (typeof value === "number" && value >= 0 && value <= max) return value;
  throw invalidNumber(name, `milliseconds from 0 to ${max}`, value);
}

/** Returns `value` if it is finite and above 0: a timer with another interval fires always or never. */
export function checkInterval(name: string, value: number, max: number = Number.MAX_VALUE): number {
  if (Number.isFinite(value) && value > 0 && value <= max) return value;
  const end = max === Number.MAX_VALUE ? "" : ` and at most ${max}`;
  throw invalidNumber(name, `a finite number of milliseconds above 0${end}`, value);
}

/** Returns `value` if it is a whole number from `min` to `max`. `Infinity` means no limit. */
export function checkCount(
  name: string,
  value: number,
  min: number = 0,
  max: number = Infinity,
): number {
  const isWhole = Number.isInteger(value) || value === Infinity;
  if (isWhole && value >= min && value <= max) return value;
  throw invalidNumber(name, `a whole number from ${min} to ${max}`, value);
}

function invalidNumber(name: string, expected: string, value: unknown): TypeError | RangeError {
  const Kind = typeof value === "number" ? RangeError : TypeError;
  return new Kind(`Invalid ${name}: expected ${expected}, got ${show(value)}`);
}

/** Returns `value` if it is one of `allowed`. */
export function checkOneOf<T>(name: string, value: T, allowed: readonly T[]): T {
  if (!allowed.includes(value)) {
    throw new TypeError(
      `Invalid ${name}: expected one of ${allowed.map(show).join(", ")}, got ${show(value)}`,
    );
  }
  return value;
}

/** Formats a value for an error message. Never throws. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return value.name ? `function ${value.name}` : "a function";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array" : `an object with keys [${Object.keys(value)}]`;
}

/** Returns the parsed URL; undefined for a text that is none. `URL.canParse` accepts some that `new URL` refuses. */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** Throws for names that occur twice. */
export function checkUnique(what: string, entries: readonly { readonly name: string }[]): void {
  const names = new Set<string>();
  for (const { name } of entries) {
    if (names.has(name)) {
      throw new TypeError(`Duplicate ${what} name ${show(name)}: give each ${what} a unique name`);
    }
    names.add(name);
  }
}
