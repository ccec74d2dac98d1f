/**
 * The default log of the package: LogTape, under the category `lastcall`. Without LogTape, or before the
 * application has configured it, records are dropped, unless the owner of the process, such as
 * `LoopGroup.main()`, has set a fallback.
 *
 * @module
 */

import { contain } from "./_promises.ts";
import { errorText } from "./errors.ts";
import { type Log, silentLog } from "./log.ts";

/** The part of a LogTape logger that this file uses. */
interface TapeLogger extends Log {
  /** Since LogTape 2. */
  isEnabledFor?(level: "debug" | "info" | "warning" | "error"): boolean;
}

type Method = keyof Log;
type LogRecord = readonly [Method, string, Record<string, unknown> | undefined];

const LEVELS = { debug: "debug", info: "info", warn: "warning", error: "error" } as const;

/** Undefined until LogTape is loaded, null where it is not installed. */
let logger: TapeLogger | null | undefined;
/** Whether the application has configured LogTape. Used before version 2, which has no `isEnabledFor`. */
let isConfigured: () => boolean = () => false;
let loading: Promise<void> | undefined;
/** The records that wait until LogTape is loaded. */
let pending: LogRecord[] = [];
/** The logs for records that LogTape does not accept. The last one is used. */
let fallbacks: readonly { readonly log: Log }[] = [];

/** Sends records with their properties to LogTape. Drops them where LogTape is not configured. */
export const libraryLog: Log = {
  debug: enqueue("debug"),
  info: enqueue("info"),
  warn: enqueue("warn"),
  error: enqueue("error"),
};

/** Logs that never throw. */
const safe = new WeakSet<Log>([libraryLog, silentLog]);

/**
 * Returns a log that never throws and never rejects. When `log` fails on a record, as a JSON log does on
 * a cycle, it gets the record again with every property as text.
 */
export function safeLog(log: Log = libraryLog): Log {
  if (safe.has(log)) return log;
  const at = (method: Method): Log[Method] => (message, properties) => {
    write(log, [method, message, properties]);
  };
  const wrapped = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  safe.add(wrapped);
  return wrapped;
}

/**
 * Writes to `log` the records that LogTape does not accept, until the returned function is called. The
 * owner of the process uses it, so that a failure is never silent.
 */
export function useFallbackLog(log: Log): () => void {
  const fallback = { log };
  fallbacks = [...fallbacks, fallback];
  return () => void (fallbacks = fallbacks.filter((it) => it !== fallback));
}

/** Loads LogTape, if it is installed. The first record calls this, and records wait for it. */
export function loadLibraryLog(): Promise<void> {
  return loading ??= load();
}

/** Delivers the records that wait for LogTape, to the fallback if it is not loaded yet. */
export function flushLibraryLog(): void {
  const records = pending;
  pending = [];
  for (const record of records) deliver(record);
}

async function load(): Promise<void> {
  try {
    const { getConfig, getLogger } = await import("@logtape/logtape");
    logger = getLogger(["lastcall"]);
    isConfigured = () => getConfig() !== null;
  } catch {
    logger = null; // an optional peer dependency that is not installed
  }
  flushLibraryLog();
}

function enqueue(method: Method): Log[Method] {
  return (message, properties) => {
    pending.push([method, message, properties]);
    if (logger === undefined) loadLibraryLog();
    else flushLibraryLog();
  };
}

function deliver([method, message, properties]: LogRecord): void {
  const enabled = logger?.isEnabledFor?.(LEVELS[method]) ?? isConfigured();
  if (logger && enabled) {
    write(logger, [method, asTemplate(message), properties]);
  } else write(fallbacks.at(-1)?.log ?? silentLog, [method, message, properties]);
}

function write(log: Log, [method, message, properties]: LogRecord): void {
  contain(() => log[method](message, properties), () => {
    if (properties === undefined) return;
    contain(() => log[method](message, asTexts(properties)), () => {});
  });
}

function asTexts(properties: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [
      name,
      typeof value === "number" || typeof value === "boolean" ? value : errorText(value),
    ]),
  );
}

/** Escapes braces: LogTape reads a message with an opening brace as a template. */
function asTemplate(text: string): string {
  return text.includes("{") ? text.replace(/[{}]/g, "$&$&") : text;
}
