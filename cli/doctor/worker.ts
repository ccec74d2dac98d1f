// The checks of a worker: of its groups, and of each loop.

import type { Mailbox } from "../../mod.ts";
import { DEFAULT_SHUTDOWN_TIMEOUT_MS } from "../../src/lifecycle/runnable.ts";
import type { MailboxLoopSettings } from "../../src/loops/mailbox_loop.ts";
import { definedOnly } from "../_options.ts";
import { checkEngine } from "./engine_check.ts";
import { checkHealthPort, checkRuntime, runtimeFacts } from "./environment_checks.ts";
import { type Finding, ok, warning } from "./finding.ts";
import type { Inspected, InspectedLoop, Inspection } from "./inspect.ts";
import type { Settings } from "./settings.ts";
import {
  checkDrain,
  checkGrace,
  checkOwnTimeout,
  checkPlatform,
  checkUnready,
} from "./stop_checks.ts";
import {
  checkConcurrency,
  checkDeadLetter,
  checkLease,
  checkVisibility,
  checkWatchdog,
} from "./work_checks.ts";

/** Runs the checks of settings that flags and variables have given, in the order of the output. */
export async function checkSettings(settings: Settings): Promise<readonly Finding[]> {
  const [port, engine] = await Promise.all([checkHealthPort(settings), checkEngine(settings)]);
  return [
    ...checkPlatform(settings),
    ...checkGrace(settings),
    ...checkUnready(settings),
    ...checkDrain(settings),
    ...checkVisibility(settings),
    ...checkLease(settings),
    ...checkWatchdog(settings),
    ...checkRuntime(settings, runtimeFacts(settings)),
    ...port,
    ...engine,
  ];
}

/** Runs the checks of a module. `settings` has the platform and what flags set for it. */
export async function checkWorker(
  settings: Settings,
  { kind, groups }: Inspection,
): Promise<readonly Finding[]> {
  const names = groups.flatMap(({ loops }) => loops.map(({ name }) => name)).join(", ");
  const how = kind === "program" ? "runs" : "exports";
  const each = await Promise.all(groups.map((group) => {
    return checkGroup(groupSettings(settings, group, kind), group, kind !== "handler");
  }));
  return [
    ...checkPlatform(settings),
    ...checkRuntime(settings, runtimeFacts(settings)),
    ok("module", `${settings.module} ${how} ${kind === "handler" ? "a handler" : names}`),
    ...each.flat(),
  ];
}

function groupSettings(settings: Settings, group: Inspected, kind: Inspection["kind"]): Settings {
  const { shutdownTimeoutMs, watchdogThresholdMs, healthPort, healthHost } = group;
  // Flags and variables are part of the group already, unless the code of the module has made it.
  const { healthPort: _port, mailbox: _mailbox, ...base } = settings;
  const timeouts = group.loops.map(({ settings }) => Object(settings).visibilityTimeoutMs ?? 0);
  return {
    ...base,
    ...definedOnly({ watchdogThresholdMs, healthPort, healthHost }),
    unreadyDelayMs: group.unreadyDelayMs ?? 0,
    visibilityTimeoutMs: group.runOptions.visibilityTimeoutMs ??
      (Math.max(...timeouts) || settings.visibilityTimeoutMs),
    shutdownTimeoutMs: shutdownTimeoutMs ?? group.loops[0]?.shutdownTimeoutMs ??
      DEFAULT_SHUTDOWN_TIMEOUT_MS,
    inCode: kind === "program" || kind === "group",
  };
}

async function checkGroup(
  settings: Settings,
  group: Inspected,
  inCode: boolean,
): Promise<readonly Finding[]> {
  const isGroup = group.shutdownTimeoutMs !== undefined;
  const [port, ...loops] = await Promise.all([
    isGroup ? checkHealthPort(settings) : [],
    ...group.loops.map((loop) => checkLoop({ ...settings, inCode }, loop, group)),
  ]);
  return [
    ...checkGrace(settings),
    ...(isGroup ? checkUnready(settings) : [noGroup(group)]),
    ...checkDrain(settings),
    ...(isGroup ? checkWatchdog(settings) : []),
    ...port,
    ...loops.flat(),
  ];
}

function noGroup({ loops }: Inspected): Finding {
  const [name] = loops.map((it) => it.name);
  return warning("group", {
    found: `loop "${name}" runs without a group`,
    why:
      "SIGTERM ends the process and its work in flight, unless the program stops the loop itself",
    change: "`await new LoopGroup([loop]).main()`",
  });
}

async function checkLoop(
  settings: Settings,
  loop: InspectedLoop,
  { runOptions, watchdogThresholdMs }: Inspected,
): Promise<readonly Finding[]> {
  const { name, shutdownTimeoutMs: ownTimeoutMs } = loop;
  const own = loop.settings as Partial<MailboxLoopSettings> & { dedupMs?: number } | undefined;
  const all: Settings = {
    ...settings,
    loop: name,
    ...definedOnly({ ownTimeoutMs }),
    ...(own === undefined ? {} : mailboxSettings(own)),
    ...definedOnly({ visibilityTimeoutMs: runOptions.visibilityTimeoutMs }),
  };
  const receives = own?.visibilityTimeoutMs !== undefined;
  const findings = [
    ...checkOwnTimeout(all),
    ...(receives ? [...checkVisibility(all), ...checkLease(all)] : []),
    ...checkConcurrency(all),
    ...checkDeadLetter(all),
    ...(loop.heartbeat === undefined && watchdogThresholdMs ? [noHeartbeat()] : []),
    ...(own === undefined ? [] : await checkEngine(all)),
  ];
  return findings.map((finding) => ({ ...finding, loop: name }));
}

function mailboxSettings(own: Partial<MailboxLoopSettings> & { dedupMs?: number }) {
  const { mailbox, visibilityTimeoutMs, concurrency, prefetch, lease, maxDeliveries } = own;
  return definedOnly({
    mailbox: mailbox as string | Mailbox<unknown>,
    ...{ visibilityTimeoutMs, concurrency, prefetch, maxDeliveries, dedupMs: own.dedupMs },
    leases: lease === undefined ? undefined : lease.enabled !== false,
    leaseIntervalMs: lease?.intervalMs,
    adaptive: lease === undefined ? undefined : lease.adaptive !== false,
  });
}

function noHeartbeat(): Finding {
  return warning("watchdog", {
    found: "the loop has no heartbeat",
    why: "the watchdog does not notice when it hangs",
    change: "extend `BaseLoop`, or add a `heartbeat`",
  });
}
