/** Checks of options. Each throws before anything has started, and names the option and its value. */

/** The longest visibility timeout: 12 hours, the limit of Amazon SQS. */
export const MAX_VISIBILITY_MS = 43_200_000;

/** Returns `value` if it is a duration from 0 to `max`, in milliseconds. `Infinity` means no limit. */
export function checkDuration(name: string, value: number, max: number = Infinity): number {
  if (typeof value !== "number" || Number.isNaN(value) || value < 0 || value > max) {
    throw new RangeError(
      `Invalid ${name}: expected milliseconds from 0 to ${max}, got ${show(value)}`,
    );
  }
  return value;
}

/** Returns `value` if it is finite and above 0: a timer with another interval fires always or never. */
export function checkInterval(name: string, value: number, max: number = Number.MAX_VALUE): number {
  if (!Number.isFinite(value) || value <= 0 || value > max) {
    const end = max === Number.MAX_VALUE ? "" : ` and at most ${max}`;
    throw new RangeError(
      `Invalid ${name}: expected a finite number of milliseconds above 0${end}, got ${show(value)}`,
    );
  }
  return value;
}

/** Returns `value` if it is a whole number from `min` to `max`. `Infinity` means no limit. */
export function checkCount(
  name: string,
  value: number,
  min: number = 0,
  max: number = Infinity,
): number {
  const isWhole = Number.isInteger(value) || value === Infinity;
  if (!isWhole || value < min || value > max) {
    throw new RangeError(
      `Invalid ${name}: expected a whole number from ${min} to ${max}, got ${show(value)}`,
    );
  }
  return value;
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
