/**
 * Where the package reports what it contained: a throwing callback, a restart, a stall.
 *
 * @module
 */

import { systemClock } from "./clock.ts";
import { errorText } from "./errors.ts";
import { knownRuntime } from "./runtime.ts";

/** A sink for log records. The loggers of the common libraries fit as they are. */
export interface Log {
  /** For whoever debugs the package itself. */
  debug(message: string, properties?: Record<string, unknown>): void;
  /** Ordinary events worth a line. */
  info(message: string, properties?: Record<string, unknown>): void;
  /** Something went wrong and was dealt with. */
  warn(message: string, properties?: Record<string, unknown>): void;
  /** Something went wrong and somebody has to look. */
  error(message: string, properties?: Record<string, unknown>): void;
}

function ignore(): void {}

/** Says nothing. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/**
 * Writes warnings and errors to standard error, and keeps quiet otherwise: as text on a terminal, elsewhere
 * as one line of JSON each, like the lines about a stop. It does not wait for a reader of standard error.
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

/** A record as one line of JSON, with errors as text. A report is left out: its text is the message. */
export function logLine(
  level: keyof Log,
  message: string,
  { report: _, ...properties }: Record<string, unknown> = {},
): string {
  const { error, ...rest } = properties;
  const at = new Date(systemClock.now()).toISOString();
  const record = { at, source: "lastcall", event: "log", level, message };
  const told = "error" in properties ? { error: errorText(error), stack: stackText(error) } : {};
  try {
    // Its own fields come first, and no property replaces them.
    return JSON.stringify({ ...record, ...rest, ...record, ...told });
  } catch {
    return JSON.stringify({ ...record, ...told }); // properties that JSON cannot express
  }
}

/** A report comes with its own text, which is all of it that a person wants to read. */
function details({ report: _, ...properties }: Record<string, unknown> = {}): string {
  const { error, ...rest } = properties;
  const more = Object.keys(rest).length === 0 ? "" : ` ${JSON.stringify(rest)}`;
  return "error" in properties ? `${more}: ${stackText(error)}` : more;
}

/** The stacks of an error and of what caused it. */
function stackText(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return errorText(error);
  const stack = error.stack ?? errorText(error);
  if (error.cause === undefined || depth > 4) return stack;
  return `${stack}\n  caused by ${stackText(error.cause, depth + 1)}`;
}
