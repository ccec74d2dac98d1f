import { libraryLog, safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";

/** Settings of a coordinated stop. */
export interface CoordinationSettings {
  /** How long the whole stop may take, in milliseconds. @default {5_000} */
  readonly timeoutMs: number;
  /** How long one receive waits for hidden messages, in milliseconds. @default {100} */
  readonly drainIntervalMs: number;
  /** How many messages are received at a time, 1 to 1 000. @default {10} */
  readonly maxBatch: number;
}

/** The settings, and the directories that the members of one machine share. */
export interface EnvironmentSettings extends CoordinationSettings {
  /** The directory of the inboxes, for `DirectoryMailbox.open`. */
  readonly messageBaseDir: string;
  /** The directory of the board, for `openDirectoryBoard`. */
  readonly stateDir: string;
}

/** The default settings. */
export const DEFAULT_SETTINGS: CoordinationSettings = {
  timeoutMs: 5_000,
  drainIntervalMs: 100,
  maxBatch: 10,
};

/**
 * Reads the settings from environment variables: `SHUTDOWN_TIMEOUT` and `INBOX_DRAIN_INTERVAL` in
 * seconds, `INBOX_MAX_BATCH`, `MESSAGE_BASE_DIR` and `COORDINATION_STATE_DIR`. An invalid value is logged
 * as a warning, and its default is used. `read` returns the value of a variable.
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
  const number = (name: string, expected: string, isValid: (value: number) => boolean) => {
    const text = read(name);
    if (text === undefined || text === "") return undefined;
    const value = /^\s*(?:\d+(?:\.\d+)?|\.\d+)\s*$/.test(text) ? Number(text) : NaN;
    if (isValid(value)) return value;
    safeLog(log).warn(
      `${name} is ${JSON.stringify(text)}: expected ${expected}; the default is used`,
    );
    return undefined;
  };
  const milliseconds = (name: string) => {
    const isDuration = (value: number) => value > 0 && Number.isFinite(value * 1_000);
    const seconds = number(name, "a number of seconds above 0", isDuration);
    return seconds === undefined ? undefined : seconds * 1_000;
  };
  const isBatch = (value: number) => Number.isInteger(value) && value >= 1 && value <= MAX_BATCH;
  const defaults = DEFAULT_SETTINGS;
  return {
    timeoutMs: milliseconds("SHUTDOWN_TIMEOUT") ?? defaults.timeoutMs,
    drainIntervalMs: milliseconds("INBOX_DRAIN_INTERVAL") ?? defaults.drainIntervalMs,
    maxBatch: number("INBOX_MAX_BATCH", `a whole number from 1 to ${MAX_BATCH}`, isBatch) ??
      defaults.maxBatch,
    messageBaseDir: read("MESSAGE_BASE_DIR") || "/dev/shm/cfn-mvp/messages",
    stateDir: read("COORDINATION_STATE_DIR") || "/dev/shm/cfn-coordination/state",
  };
}
