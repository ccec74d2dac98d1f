/** Bad input is answered here, before anything has started. */

/** Refuses what is not a duration; `Infinity` means no limit. */
export function checkDuration(name: string, value: number): number {
  if (typeof value !== "number" || Number.isNaN(value) || value < 0) {
    throw new RangeError(
      `Invalid ${name}: expected milliseconds from 0 to Infinity, got ${show(value)}`,
    );
  }
  return value;
}

/** Refuses what cannot be an interval or a threshold: it would fire all the time or never. */
export function checkInterval(name: string, value: number): number {
  if (!Number.isFinite(value) || value <= 0) {
    throw new RangeError(
      `Invalid ${name}: expected a finite number of milliseconds above 0, got ${show(value)}`,
    );
  }
  return value;
}

/** Refuses what is not a count. */
export function checkCount(name: string, value: number): number {
  if (value !== Infinity && (!Number.isInteger(value) || value < 0)) {
    throw new RangeError(
      `Invalid ${name}: expected a whole number from 0 to Infinity, got ${show(value)}`,
    );
  }
  return value;
}

/** Refuses what is not one of the listed words. */
export function checkOneOf<T>(name: string, value: T, allowed: readonly T[]): T {
  if (!allowed.includes(value)) {
    throw new TypeError(
      `Invalid ${name}: expected one of ${allowed.map(show).join(", ")}, got ${show(value)}`,
    );
  }
  return value;
}

/** A value as an error message names it: short, and never throwing itself. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return value.name ? `function ${value.name}` : "a function";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array" : `an object with keys [${Object.keys(value)}]`;
}
