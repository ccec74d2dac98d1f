import { InvalidArgumentError } from "commander";
import { MAX_VISIBILITY_MS } from "../mod.ts";

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Reads `500ms`, `30s`, `2m`, `1.5h`, or a plain number of milliseconds. */
export function parseDuration(text: string): number {
  const [, amount, unit = "ms"] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? [];
  if (amount === undefined) {
    throw new InvalidArgumentError("Write 500ms, 30s, 2m, 1h, or milliseconds.");
  }
  return Math.round(Number(amount) * UNITS[unit]!);
}

/** Reads a time for which a mailbox can hide a message. */
export function parseVisibility(text: string): number {
  const ms = parseDuration(text);
  if (ms <= MAX_VISIBILITY_MS) return ms;
  throw new InvalidArgumentError("Write at most 12h: no mailbox hides a message for longer.");
}

/** Reads a whole number from `min` to `max`. */
export function parseCount(min: number = 0, max: number = Infinity): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    const range = max === Infinity ? `from ${min} on` : `from ${min} to ${max}`;
    throw new InvalidArgumentError(`Write a whole number ${range}.`);
  };
}

/** A time that has passed, as people say it: `3 s`, `2 min`, `5 h`, `12 d`. */
export function ageText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}
