/**
 * Where the package reports what it contained: a throwing callback, a restart, a stall.
 *
 * @module
 */

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

/** Writes warnings and errors to the console, and keeps quiet otherwise. */
export const consoleLog: Log = {
  debug: ignore,
  info: ignore,
  warn: (message, properties) => console.warn(`lastcall: ${message}`, ...extra(properties)),
  error: (message, properties) => console.error(`lastcall: ${message}`, ...extra(properties)),
};

/** A report comes with its own text, which is all of it that a person wants to read. */
function extra({ report: _, ...properties }: Record<string, unknown> = {}): unknown[] {
  return Object.keys(properties).length === 0 ? [] : [properties];
}
