// What the doctor checks: the settings of a worker, and the platform that it runs on.

import type { Mailbox } from "../../mod.ts";
import { flagValue } from "./finding.ts";

/** How a platform ends a process, by default. */
export interface Platform {
  readonly name: string;
  readonly title: string;
  /** The signal that asks the process to stop. */
  readonly signal: "SIGTERM" | "SIGINT";
  /** The time from the signal to SIGKILL; undefined if the platform sends no SIGKILL. */
  readonly graceMs?: number;
  /** The environment variable that the platform sets. */
  readonly variable?: string;
  /** Returns the setting that changes the grace period; undefined if it is fixed. */
  readonly setGrace?: (seconds: number) => string;
  /** Whether the platform probes readiness and routes requests by it. */
  readonly probesReadiness: boolean;
}

/** The known platforms, most specific first: Fly.io and ECS may also set variables of others. */
export const PLATFORMS: readonly Platform[] = [
  {
    name: "fly",
    title: "Fly.io",
    signal: "SIGINT",
    graceMs: 5_000,
    variable: "FLY_APP_NAME",
    setGrace: (seconds) => `kill_timeout = ${seconds} in fly.toml (at most 300 on shared CPUs)`,
    probesReadiness: true,
  },
  {
    name: "deno-deploy",
    title: "Deno Deploy",
    signal: "SIGINT",
    graceMs: 5_000,
    variable: "DENO_DEPLOYMENT_ID",
    probesReadiness: false,
  },
  {
    name: "cloud-run",
    title: "Cloud Run",
    signal: "SIGTERM",
    graceMs: 10_000,
    variable: "K_SERVICE",
    probesReadiness: false,
  },
  {
    name: "ecs",
    title: "Amazon ECS",
    signal: "SIGTERM",
    graceMs: 30_000,
    variable: "ECS_CONTAINER_METADATA_URI_V4",
    setGrace: (seconds) => `"stopTimeout": ${seconds} of the container (at most 120 on Fargate)`,
    probesReadiness: true,
  },
  {
    name: "kubernetes",
    title: "Kubernetes",
    signal: "SIGTERM",
    graceMs: 30_000,
    variable: "KUBERNETES_SERVICE_HOST",
    setGrace: (seconds) => `terminationGracePeriodSeconds: ${seconds} of the pod`,
    probesReadiness: true,
  },
  {
    name: "systemd",
    title: "systemd",
    signal: "SIGTERM",
    graceMs: 90_000,
    variable: "INVOCATION_ID",
    setGrace: (seconds) => `TimeoutStopSec=${seconds} of the unit`,
    probesReadiness: false,
  },
  {
    name: "docker",
    title: "Docker",
    signal: "SIGTERM",
    graceMs: 10_000,
    setGrace: (seconds) =>
      `docker stop -t ${seconds}, or stop_grace_period: ${seconds}s in Compose`,
    probesReadiness: false,
  },
  {
    name: "none",
    title: "no platform",
    signal: "SIGTERM",
    setGrace: (seconds) => `a grace period of ${seconds} s`,
    probesReadiness: false,
  },
];

/** Returns the platform of this name. */
export function platformOf(name: string): Platform {
  return PLATFORMS.find((platform) => platform.name === name) ?? PLATFORMS.at(-1)!;
}

/** Returns the platform whose environment variable is set, or `none`. */
export function detectPlatform(env: Readonly<Record<string, string | undefined>>): Platform {
  return PLATFORMS.find(({ variable }) => variable !== undefined && env[variable]) ??
    platformOf("none");
}

/** The settings of a worker, or of one of its loops, as far as they are known. */
export interface Settings {
  readonly platform: Platform;
  /** The variable by which the platform was detected; undefined if `--platform` names it. */
  readonly detectedBy?: string;
  /** The time from the signal to SIGKILL; undefined if there is no SIGKILL. */
  readonly graceMs?: number;
  readonly shutdownTimeoutMs: number;
  readonly unreadyDelayMs: number;
  readonly visibilityTimeoutMs: number;
  /** Whether leases are extended while a handler runs. */
  readonly leases: boolean;
  /** The lease interval, if it is set. */
  readonly leaseIntervalMs?: number;
  /** False if a lease interval that is too long is not shortened. @default {true} */
  readonly adaptive?: boolean;
  /** The time of the longest handler. */
  readonly processingTimeMs?: number;
  readonly watchdogThresholdMs: number | false;
  readonly healthPort?: number;
  readonly healthHost: string;
  /** The mailbox that the module has opened, or a URL. */
  readonly mailbox?: string | Mailbox<unknown>;
  /** The path of the module. */
  readonly module?: string;
  /** True when the code of the module has the settings, so that flags cannot change them. */
  readonly inCode?: boolean;
  /** The name of the loop. */
  readonly loop?: string;
  /** The timeout of the loop's own stop. */
  readonly ownTimeoutMs?: number;
  readonly concurrency?: number;
  readonly prefetch?: number | "auto";
  /** The failures after which a message is dead-lettered; `false` for none. */
  readonly maxDeliveries?: number | false;
  /** How long the engine must remember the ids of messages. */
  readonly dedupMs?: number;
}

/** The options that a finding recommends to change: the flag of `run`, and the name in code. */
const OPTIONS = {
  "shutdown-timeout": "shutdownTimeoutMs",
  "unready-delay": "unreadyDelayMs",
  "visibility-timeout": "visibilityTimeoutMs",
  "lease-interval": "lease.intervalMs",
  "health-port": "healthPort",
  "health-host": "healthHost",
  "mailbox": "mailbox",
  "max-deliveries": "deadLetter.maxDeliveries",
  "concurrency": "concurrency",
  "prefetch": "prefetch",
} as const;

/** Names an option where the worker has it: `--mailbox`, or `mailbox` in code. */
export function optionName(
  { inCode }: Pick<Settings, "inCode">,
  flag: keyof typeof OPTIONS,
): string {
  return inCode ? `\`${OPTIONS[flag]}\`` : `--${flag}`;
}

/** Writes a duration where the worker has it: `--shutdown-timeout 28s`, or `shutdownTimeoutMs: 28000`. */
export function durationOption(
  { inCode }: Pick<Settings, "inCode">,
  flag: keyof typeof OPTIONS,
  ms: number,
): string {
  return inCode ? `\`${OPTIONS[flag]}: ${ms}\`` : `--${flag} ${flagValue(ms)}`;
}
