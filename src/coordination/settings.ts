import { checkCount } from "../_checks.ts";
import { libraryLog, safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";

/** What a coordinated stop goes by. */
export interface CoordinationSettings {
  /** How long the whole of it may take. @default {5_000} */
  readonly timeoutMs: number;
  /** How long to wait for messages that are hidden, before looking again. @default {100} */
  readonly drainIntervalMs: number;
  /** How many messages are drained at a time, up to 1 000. @default {10} */
  readonly maxBatch: number;
}

/** The settings, and where agents of one machine meet. */
export interface EnvironmentSettings extends CoordinationSettings {
  /** For inboxes in a directory. */
  readonly messageBaseDir: string;
  /** For a board in a directory. */
  readonly stateDir: string;
}

/** What holds where nothing is said. */
export const DEFAULT_SETTINGS: CoordinationSettings = {
  timeoutMs: 5_000,
  drainIntervalMs: 100,
  maxBatch: 10,
};

/**
 * Reads the settings from environment variables: `SHUTDOWN_TIMEOUT` and `INBOX_DRAIN_INTERVAL` in
 * seconds, `INBOX_MAX_BATCH`, `MESSAGE_BASE_DIR` and `COORDINATION_STATE_DIR`. What makes no sense is
 * warned of, and the default holds. `read` gets them from wherever the runtime has them.
 *
 * @example
 * ```ts
 * import process from "node:process";
 * import { settingsFromEnv } from "@lastcall/lastcall/coordination";
 *
 * const settings = settingsFromEnv((name) => process.env[name]);
 * console.assert(settings.maxBatch >= 1);
 * ```
 */
export function settingsFromEnv(
  read: (name: string) => string | undefined,
  log: Log = libraryLog,
): EnvironmentSettings {
  const number = (name: string, expected: string, isGood: (value: number) => boolean) => {
    const text = read(name);
    if (text === undefined || text === "") return undefined;
    const value = /^\s*\d*\.?\d+\s*$/.test(text) ? Number(text) : NaN;
    if (isGood(value)) return value;
    safeLog(log).warn(
      `${name} is ${JSON.stringify(text)}: expected ${expected}; the default is used`,
    );
    return undefined;
  };
  const milliseconds = (name: string, isGood: (value: number) => boolean) => {
    const seconds = number(name, "a number of seconds above 0", isGood);
    return seconds === undefined ? undefined : seconds * 1_000;
  };
  const { timeoutMs, drainIntervalMs, maxBatch } = DEFAULT_SETTINGS;
  const isDuration = (value: number) => value > 0 && Number.isFinite(value);
  return {
    timeoutMs: milliseconds("SHUTDOWN_TIMEOUT", isDuration) ?? timeoutMs,
    drainIntervalMs: milliseconds("INBOX_DRAIN_INTERVAL", isDuration) ?? drainIntervalMs,
    maxBatch: number("INBOX_MAX_BATCH", `a whole number from 1 to ${MAX_BATCH}`, isBatch) ??
      maxBatch,
    messageBaseDir: read("MESSAGE_BASE_DIR") || "/dev/shm/cfn-mvp/messages",
    stateDir: read("COORDINATION_STATE_DIR") || "/dev/shm/cfn-coordination/state",
  };
}

/** Refuses a number of messages that cannot be received at once. */
export function checkBatch(maxBatch: number): number {
  return checkCount("maxBatch", maxBatch, 1, MAX_BATCH);
}

function isBatch(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= MAX_BATCH;
}
