/**
 * The log port: where the package reports contained errors, restarts and stalls.
 *
 * @module
 */

import { systemClock } from "./clock.ts";
import { errorText } from "./errors.ts";
import { knownRuntime } from "./runtime.ts";

/** A sink for log records. The loggers of the common libraries implement it. */
export interface Log {
  /** Logs details for debugging the package itself. */
  debug(message: string, properties?: Record<string, unknown>): void;
  /** Logs ordinary events. */
  info(message: string, properties?: Record<string, unknown>): void;
  /** Logs an error that the package has handled. */
  warn(message: string, properties?: Record<string, unknown>): void;
  /** Logs an error that needs attention. */
  error(message: string, properties?: Record<string, unknown>): void;
}

function ignore(): void {}

/** Drops every record. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/**
 * Writes warnings and errors to standard error and drops the rest. A terminal gets text, a pipe or file
 * one line of JSON per record. It does not wait for a reader of standard error.
 */
export const consoleLog: Log = {
  debug: ignore,
  info: ignore,
  warn: (message, properties) => writeRecord("warn", message, properties),
  error: (message, properties) => writeRecord("error", message, properties),
};

function writeRecord(
  level: keyof Log,
  message: string,
  properties?: Record<string, unknown>,
): void {
  const terminal = knownRuntime()?.terminal;
  if (terminal?.interactive === false) terminal.write(`${logLine(level, message, properties)}\n`);
  else if (terminal) terminal.write(`lastcall: ${message}${details(properties)}\n`);
  else console.error(`lastcall: ${message}${details(properties)}`);
}

/** Formats a record as one line of JSON, with errors as text. Omits a report: its text is the message. */
export function logLine(
  level: keyof Log,
  message: string,
  { report: _, ...properties }: Record<string, unknown> = {},
): string {
  const { error, ...rest } = properties;
  const at = new Date(systemClock.now()).toISOString();
  const record = { at, source: "lastcall", event: "log", level, message };
  const failure = "error" in properties ? { error: errorText(error), stack: stackText(error) } : {};
  try {
    // The fields of the record come first, and no property overrides them.
    return JSON.stringify({ ...record, ...rest, ...record, ...failure });
  } catch {
    return JSON.stringify({ ...record, ...failure }); // properties that JSON cannot express
  }
}

/** Formats the properties as text. Omits a report: its text is the message. */
function details({ report: _, ...properties }: Record<string, unknown> = {}): string {
  const { error, ...rest } = properties;
  const more = Object.keys(rest).length === 0 ? "" : ` ${JSON.stringify(rest)}`;
  return "error" in properties ? `${more}: ${stackText(error)}` : more;
}

/** Returns the stacks of an error and of its causes. */
function stackText(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return errorText(error);
  const stack = error.stack ?? errorText(error);
  if (error.cause === undefined || depth > 4) return stack;
  return `${stack}\n  caused by ${stackText(error.cause, depth + 1)}`;
}
