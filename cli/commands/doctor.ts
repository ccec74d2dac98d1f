import type { Command } from "commander";
import { DEFAULT_VISIBILITY_TIMEOUT_MS } from "../../src/engine.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { DEFAULT_SHUTDOWN_TIMEOUT_MS } from "../../src/lifecycle/runnable.ts";
import { DEFAULT_WATCHDOG_THRESHOLD_MS } from "../../src/lifecycle/watchdog.ts";
import { oneLine, type Paint } from "../../src/terminal/text.ts";
import { CliError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import { definedOnly, envOptions, examples, parseCount, parseDuration } from "../_options.ts";
import { counted, paint, printer } from "../_print.ts";
import { checkEngine } from "../doctor/engine_check.ts";
import { checkHealthPort, checkRuntime, runtimeFacts } from "../doctor/environment_checks.ts";
import { type Finding, flagValue, type Level } from "../doctor/finding.ts";
import { detectPlatform, platformOf, PLATFORMS, type Settings } from "../doctor/settings.ts";
import { checkDrain, checkGrace, checkPlatform, checkUnready } from "../doctor/stop_checks.ts";
import { checkLease, checkVisibility, checkWatchdog } from "../doctor/work_checks.ts";

interface Flags {
  readonly platform?: string;
  readonly grace?: number;
  readonly shutdownTimeout?: number;
  readonly unreadyDelay?: number;
  readonly visibilityTimeout?: number;
  readonly lease: boolean;
  readonly leaseInterval?: number;
  readonly processingTime?: number;
  readonly watchdogThreshold?: number | false;
  readonly mailbox?: string;
  readonly healthPort?: number;
  readonly healthHost?: string;
}

const ABOUT = `
A shutdown consists of the unready delay, the time for work in flight, and a reserve to release the
rest. All of it must fit into the grace period, after which the platform kills the process:
  ${gracePeriods()}

The settings are those of run, by flag or environment variable. The doctor does not load the module
and creates nothing${exceptions()}.

Exit code 0: no problems. 1: problems.`;

function gracePeriods(): string {
  return PLATFORMS.flatMap(({ name, graceMs }) => {
    return graceMs === undefined ? [] : `${name} ${flagValue(graceMs)}`;
  }).join(", ");
}

function exceptions(): string {
  const created = ENGINES.flatMap(({ alwaysCreates = [] }) => alwaysCreates);
  return created.length === 0 ? "" : `, except ${created.join(" and ")}`;
}

/** Adds `lastcall doctor`, which checks that a worker can shut down gracefully. */
export function addDoctor(program: Command, io: Io): void {
  const doctor = program.command("doctor")
    .description(
      "Check that a worker can shut down gracefully with its settings, and say what to change.",
    )
    .argument("[module]", "path of the module that run will run");
  addOptions(doctor)
    .addHelpText("after", ABOUT)
    .addHelpText(
      "after",
      examples(
        ["lastcall doctor", "the defaults, on this platform"],
        ["lastcall doctor worker.ts --mailbox sqlite:./jobs.db", "with the mailbox"],
        ["lastcall doctor --platform kubernetes --processing-time 40s", "before a deploy"],
        ["lastcall doctor --grace 60s --shutdown-timeout 55s --json", "as JSON"],
      ),
    )
    .action(async (module: string | undefined, flags: Flags, command: Command) => {
      const findings = await runChecks(settingsOf(io, module, flags));
      const { json } = printer(io, command);
      const style = paint(io, io.out);
      const lines = json ? findings.map((it) => JSON.stringify(it)) : findingLines(findings, style);
      io.out.write(`${lines.join("\n")}\n`);
      const bad = findings.filter(({ level }) => level === "problem").map(({ check }) => check);
      if (bad.length === 0) return;
      throw new CliError("failed", `${counted(bad.length, "problem")}: ${bad.join(", ")}`);
    });
}

function addOptions(command: Command): Command {
  const add = envOptions(command);
  add("--platform <name>", "platform of the worker (default: detected)")
    .choices(PLATFORMS.map(({ name }) => name));
  add(
    "--grace <time>",
    "time from the signal to the kill (default: the platform's)",
    parseDuration,
  );
  add("--shutdown-timeout <time>", "time limit of a shutdown (default: 30s)", parseDuration);
  add(
    "--unready-delay <time>",
    "part of it that the group keeps working while not ready (default: 0s)",
    parseDuration,
  );
  add("--processing-time <time>", "time of the longest handler", parseDuration);
  add("--visibility-timeout <time>", "length of a message's lease (default: 5m)", parseDuration);
  add("--lease-interval <time>", "interval of lease extensions (default: 60s)", parseDuration);
  command.option("--no-lease", "leases are not extended while a handler runs");
  add(
    "--watchdog-threshold <time>",
    "silence after which the watchdog kills, or off (default: 12m)",
    (text) => {
      return text === "off" ? false : parseDuration(text);
    },
  );
  add("--mailbox <url>", "mailbox to connect to");
  add(
    "--health-port <port>",
    "port for probes, to check that it is free",
    parseCount(0, 65_535),
  );
  add("--health-host <host>", "address to listen on (default: 0.0.0.0)");
  return command;
}

function settingsOf(io: Io, module: string | undefined, flags: Flags): Settings {
  const {
    mailbox,
    healthPort,
    healthHost = "0.0.0.0",
    watchdogThreshold = DEFAULT_WATCHDOG_THRESHOLD_MS,
  } = flags;
  const named = flags.platform !== undefined;
  const platform = named ? platformOf(flags.platform) : detectPlatform(io.env);
  return {
    ...definedOnly({
      detectedBy: named ? undefined : platform.variable,
      graceMs: flags.grace ?? platform.graceMs,
      leaseIntervalMs: flags.leaseInterval,
      processingTimeMs: flags.processingTime,
      healthPort,
      mailbox,
      module,
    }),
    platform,
    shutdownTimeoutMs: flags.shutdownTimeout ?? DEFAULT_SHUTDOWN_TIMEOUT_MS,
    unreadyDelayMs: flags.unreadyDelay ?? 0,
    visibilityTimeoutMs: flags.visibilityTimeout ?? DEFAULT_VISIBILITY_TIMEOUT_MS,
    leases: flags.lease,
    watchdogThresholdMs: watchdogThreshold,
    healthHost,
  };
}

/** Runs all checks, in the order of the output. */
async function runChecks(settings: Settings): Promise<readonly Finding[]> {
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

const COLOURS = { ok: "green", warning: "yellow", problem: "red" } as const;

function findingLines(findings: readonly Finding[], style: Paint): readonly string[] {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const indent = " ".repeat("problem".length + width + 4);
  const lines = findings.flatMap(({ check, level, found, why, change }) => [
    `${style(COLOURS[level], level.padEnd(7))}  ${check.padEnd(width)}  ${oneLine(found)}`,
    ...(why === undefined ? [] : [`${indent}why: ${why}`]),
    ...(change === undefined ? [] : [`${indent}change: ${style("bold", oneLine(change))}`]),
  ]);
  const count = (level: Level) => findings.filter((it) => it.level === level).length;
  const sum = `${counted(count("problem"), "problem")}, ${counted(count("warning"), "warning")}`;
  return [...lines, "", count("problem") + count("warning") === 0 ? "all checks passed" : sum];
}
