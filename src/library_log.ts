/**
 * Where the package logs unless it is told otherwise: to LogTape, under the category `lastcall`. A
 * library says nothing that nobody asked for, so without LogTape, or before the application has
 * configured it, records are dropped. Who owns the process, as `LoopGroup.main()` does, takes them then.
 *
 * @module
 */

import { type Log, silentLog } from "./log.ts";

/** What is used of a LogTape logger. */
interface TapeLogger extends Log {
  isEnabledFor(level: "debug" | "info" | "warning" | "error"): boolean;
}

type Method = keyof Log;
type LogRecord = readonly [Method, string, Record<string, unknown> | undefined];

const LEVELS = { debug: "debug", info: "info", warn: "warning", error: "error" } as const;

/** Undefined until it is loaded, null where it is not installed. */
let logger: TapeLogger | null | undefined;
let loading: Promise<void> | undefined;
/** What was logged while LogTape was being loaded. */
let early: LogRecord[] = [];
let unheard: Log = silentLog;

/** Hands records to LogTape, with their properties; quiet where nobody listens. */
export const libraryLog: Log = {
  debug: take("debug"),
  info: take("info"),
  warn: take("warn"),
  error: take("error"),
};

/**
 * Says who takes what LogTape does not, until the returned function is called. It is for those who own
 * the process: a person who starts it must not look at a silent failure.
 */
export function takeUnheard(log: Log): () => void {
  const before = unheard;
  unheard = log;
  return () => void (unheard = before);
}

/** Loads LogTape, if it is installed. Records wait for it; the first one does this by itself. */
export function loadLibraryLog(): Promise<void> {
  return loading ??= load();
}

/** Delivers what waits for LogTape, without it if need be: there may be no later. */
export function flushLibraryLog(): void {
  const records = early;
  early = [];
  for (const record of records) deliver(record);
}

async function load(): Promise<void> {
  try {
    const { getLogger } = await import("@logtape/logtape");
    logger = getLogger(["lastcall"]);
  } catch {
    logger = null; // an optional peer: it is not installed, and nobody misses it
  }
  flushLibraryLog();
}

function take(method: Method): Log[Method] {
  return (message, properties) => {
    early.push([method, message, properties]);
    if (logger === undefined) loadLibraryLog();
    else flushLibraryLog();
  };
}

function deliver([method, message, properties]: LogRecord): void {
  if (logger?.isEnabledFor(LEVELS[method])) logger[method](asTemplate(message), properties);
  else unheard[method](message, properties);
}

/** Messages are templates to LogTape; ours are text. It leaves those without an opening brace alone. */
function asTemplate(text: string): string {
  return text.includes("{") ? text.replace(/[{}]/g, "$&$&") : text;
}
