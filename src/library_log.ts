/**
 * Where the package logs unless it is told otherwise: to LogTape, under the category `lastcall`. A
 * library says nothing that nobody asked for, so without LogTape, or before the application has
 * configured it, records are dropped. Who owns the process, as `LoopGroup.main()` does, takes them then.
 *
 * @module
 */

import { contain } from "./_promises.ts";
import { errorText } from "./errors.ts";
import { type Log, silentLog } from "./log.ts";

/** What is used of a LogTape logger. */
interface TapeLogger extends Log {
  /** Since LogTape 2. */
  isEnabledFor?(level: "debug" | "info" | "warning" | "error"): boolean;
}

type Method = keyof Log;
type LogRecord = readonly [Method, string, Record<string, unknown> | undefined];

const LEVELS = { debug: "debug", info: "info", warn: "warning", error: "error" } as const;

/** Undefined until it is loaded, null where it is not installed. */
let logger: TapeLogger | null | undefined;
/** Whether the application has configured LogTape, as far as versions before 2 can tell. */
let isConfigured: () => boolean = () => false;
let loading: Promise<void> | undefined;
/** What was logged while LogTape was being loaded. */
let early: LogRecord[] = [];
/** Who takes what LogTape does not; the last one gets it. */
let takers: readonly { readonly log: Log }[] = [];

/** Hands records to LogTape, with their properties; quiet where nobody listens. */
export const libraryLog: Log = {
  debug: take("debug"),
  info: take("info"),
  warn: take("warn"),
  error: take("error"),
};

/** Logs that are known never to throw. */
const safe = new WeakSet<Log>([libraryLog, silentLog]);

/**
 * Returns a log that never throws and never rejects, whatever `log` does. A record that `log` refuses,
 * as a JSON log does with a cycle, is handed to it again with every property as text.
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
 * Says who takes what LogTape does not, until the returned function is called. It is for those who own
 * the process: a person who starts it must not look at a silent failure.
 */
export function takeUnheard(log: Log): () => void {
  const taker = { log };
  takers = [...takers, taker];
  return () => void (takers = takers.filter((it) => it !== taker));
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
    const { getConfig, getLogger } = await import("@logtape/logtape");
    logger = getLogger(["lastcall"]);
    isConfigured = () => getConfig() !== null;
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
  const heard = logger?.isEnabledFor?.(LEVELS[method]) ?? isConfigured();
  if (logger && heard) {
    write(logger, [method, asTemplate(message), properties]);
  } else write(takers.at(-1)?.log ?? silentLog, [method, message, properties]);
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

/** Messages are templates to LogTape; ours are text. It leaves those without an opening brace alone. */
function asTemplate(text: string): string {
  return text.includes("{") ? text.replace(/[{}]/g, "$&$&") : text;
}
