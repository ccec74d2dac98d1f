// Options and help texts that several commands share.

import { type Command, InvalidArgumentError, Option } from "commander";
import { MAX_BATCH, MAX_DELAY_MS, MAX_VISIBILITY_MS } from "../src/engine.ts";

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Parses `500ms`, `30s`, `2m`, `1.5h`, `7d`, or a number of milliseconds. */
export function parseDuration(text: string): number {
  const [, amount, unit = "ms"] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  const ms = Math.round(Number(amount) * UNITS[unit]!);
  if (Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError("Write 500ms, 30s, 2m, 1h, 7d, or milliseconds.");
}

/** Parses a delay of a message. */
export function parseDelay(text: string): number {
  const ms = parseDuration(text);
  if (ms <= MAX_DELAY_MS) return ms;
  throw new InvalidArgumentError(`Write at most ${MAX_DELAY_MS / UNITS["d"]!}d.`);
}

/** Parses a time that must be longer than 0. */
export function parseInterval(text: string): number {
  const ms = parseDelay(text);
  if (ms > 0) return ms;
  throw new InvalidArgumentError("Write a time above 0, as 30s.");
}

/** Parses a date and time, as `2030-01-31T08:00Z`. Without an offset it is local time. */
export function parseInstant(text: string): Date {
  const time = new Date(text);
  // Other forms mean different times on different runtimes.
  const known = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?$/.test(text);
  const [day = ""] = text.split("T");
  // Some runtimes take the 31st of February for a day of March.
  const exists = known && !Number.isNaN(time.getTime()) &&
    new Date(`${day}T00:00Z`).toISOString().startsWith(day);
  if (!exists) {
    throw new InvalidArgumentError("Write a date and time, as 2030-01-31T08:00Z.");
  }
  return time;
}

/** Parses the time at which a message becomes visible. */
export function parseTime(text: string): Date {
  const time = parseInstant(text);
  if (time.getTime() - Date.now() <= MAX_DELAY_MS) return time;
  throw new InvalidArgumentError(
    `Write a time that is at most ${MAX_DELAY_MS / UNITS["d"]!} days from now.`,
  );
}

/** Parses a visibility timeout. */
export function parseVisibilityTimeout(text: string): number {
  const ms = parseDuration(text);
  if (ms <= MAX_VISIBILITY_MS) return ms;
  throw new InvalidArgumentError("Write at most 12h: no mailbox hides a message for longer.");
}

/** Returns a parser of whole numbers from `min` to `max`. */
export function parseCount(min: number = 0, max: number = Infinity): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min && value <= max) {
      return value;
    }
    const range = max === Infinity ? `of ${min} or more` : `from ${min} to ${max}`;
    throw new InvalidArgumentError(`Write a whole number ${range}.`);
  };
}

/** Adds a header `name=value` to the ones before. */
export function parseHeader(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Write name=value.");
  const name = text.slice(0, at);
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError("Write each name once.");
  return { ...before, [name]: text.slice(at + 1) };
}

/** Adds an option that can also be set by the environment variable `LASTCALL_<NAME>`. */
export type AddOption = (
  flags: string,
  text: string,
  parse?: (text: string) => unknown,
) => Option;

/** Returns a function that adds such options to a command. */
export function envOptions(command: Command): AddOption {
  return (flags, text, parse) => {
    const option = new Option(flags, text);
    option.env(`LASTCALL_${option.name().replaceAll("-", "_").toUpperCase()}`);
    if (parse !== undefined) option.argParser(parse);
    command.addOption(option);
    return option;
  };
}

/** Makes `--limit`, for commands that list messages. */
export function limitOption(): Option {
  return new Option("-n, --limit <count>", "show at most this many, oldest first")
    .argParser(parseCount(1, MAX_BATCH)).default(10);
}

/** Makes `--skip`, for lists in pages. */
export function skipOption(): Option {
  return new Option("--skip <count>", "leave out this many of the oldest")
    .argParser(parseCount(0, 1e9)).default(0);
}

/** Makes `--token`, for commands that control a running group. */
export function tokenOption(): Option {
  return new Option("--token <token>", "token of the health app; prefer the environment variable")
    .env("LASTCALL_TOKEN");
}

/** Removes undefined values: an option set to undefined is not the same as an option left out. */
export function definedOnly<O extends object>(options: O): { [K in keyof O]?: NonNullable<O[K]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof O]?: NonNullable<O[K]> };
}

/** Formats the Examples section of a command. */
export function examples(...lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  const shown = lines.map(([command, what]) => `  $ ${command.padEnd(width)}  # ${what}`);
  return `\nExamples:\n${shown.join("\n")}`;
}

/** The help of the health app's URL, which `status`, `pause` and `resume` take. */
export const HEALTH_URL = "URL of the health app: http://host:8080, host:8080 or :8080";
