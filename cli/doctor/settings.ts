import type { Platform } from "./platforms.ts";

/** What a worker is started with, as far as it is known. All times are milliseconds. */
export interface Settings {
  readonly platform: Platform;
  /** The variable that told of the platform, where nobody named it. */
  readonly detectedBy?: string;
  /** How long after the signal the process is killed; undefined where nobody does. */
  readonly graceMs?: number;
  readonly shutdownTimeoutMs: number;
  readonly unreadyDelayMs: number;
  readonly visibilityTimeoutMs: number;
  /** Whether leases are kept while a message is worked on. */
  readonly leases: boolean;
  /** How often, where somebody has said so. */
  readonly leaseIntervalMs?: number;
  /** The longest that a message is expected to take. */
  readonly processingTimeMs?: number;
  /** Null where the watchdog is switched off. */
  readonly watchdogThresholdMs: number | null;
  readonly healthPort?: number;
  readonly healthHost: string;
  readonly mailbox?: string;
  /** The path of the module that is to be run. */
  readonly module?: string;
}
