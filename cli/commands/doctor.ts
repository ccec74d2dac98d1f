import type { Command } from "commander";
import { oneLine, type Paint } from "../../src/terminal/text.ts";
import { parseCount, parseDuration } from "../_duration.ts";
import { envOptions } from "../_env_option.ts";
import { CliError } from "../_errors.ts";
import { examples } from "../_help.ts";
import type { Io } from "../_io.ts";
import { counted, paint, printer } from "../_print.ts";
import { examine } from "../doctor/examine.ts";
import type { Finding, Level } from "../doctor/finding.ts";
import { detectPlatform, platformOf, PLATFORMS } from "../doctor/platforms.ts";
import type { Settings } from "../doctor/settings.ts";

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
A stop is made of the unready delay, the time for work in flight, and a reserve to give back what is
left. All of that must fit into the grace of the platform, which kills the process after it:
  kubernetes 30s, ecs 30s, docker 10s, cloud-run 10s, fly 5s, deno-deploy 5s, systemd 90s

The settings are those of run, by flag or by environment. The module is not loaded, and nothing is
made that is not there, but for the streams of a mailbox on NATS.

Exit code 0: all well, or warnings only. 1: problems.`;

/** `lastcall doctor`: whether a worker could stop well with these settings, here. */
export function addDoctor(program: Command, io: Io): void {
  const doctor = program.command("doctor")
    .description("Check whether a worker can stop well with its settings, and say what to change.")
    .argument("[module]", "the module that is to be run");
  addOptions(doctor)
    .addHelpText("after", ABOUT)
    .addHelpText(
      "after",
      examples(
        ["lastcall doctor", "the defaults, where you are"],
        ["lastcall doctor worker.ts --mailbox sqlite:./jobs.db", "with the engine"],
        ["lastcall doctor --platform kubernetes --processing-time 40s", "before a deploy"],
        ["lastcall doctor --grace 60s --shutdown-timeout 55s --json", "for programs"],
      ),
    )
    .action(async (module: string | undefined, flags: Flags, command: Command) => {
      const findings = await examine(settingsOf(io, module, flags));
      const { json } = printer(io, command);
      const style = paint(io, io.out);
      const lines = json ? findings.map((it) => JSON.stringify(it)) : told(findings, style);
      io.out.write(`${lines.join("\n")}\n`);
      const bad = findings.filter(({ level }) => level === "problem").map(({ check }) => check);
      if (bad.length === 0) return;
      throw new CliError("failed", `${counted(bad.length, "problem")}: ${bad.join(", ")}`);
    });
}

function addOptions(command: Command): Command {
  const add = envOptions(command);
  add("--platform <name>", "where it runs (default: what the environment tells)")
    .choices(PLATFORMS.map(({ name }) => name));
  add(
    "--grace <time>",
    "the time from the signal to the kill (default: the platform's)",
    parseDuration,
  );
  add("--shutdown-timeout <time>", "how long a stop may take in all (default: 30s)", parseDuration);
  add("--unready-delay <time>", "of that, to go on working first (default: 0s)", parseDuration);
  add("--processing-time <time>", "the longest that a message is expected to take", parseDuration);
  add("--visibility-timeout <time>", "how long a message is leased (default: 5m)", parseDuration);
  add("--lease-interval <time>", "how often leases are extended (default: 60s)", parseDuration);
  command.option("--no-lease", "leases are not kept while a message is worked on");
  add("--watchdog-threshold <time>", "or off (default: 12m)", (text) => {
    return text === "off" ? false : parseDuration(text);
  });
  add("--mailbox <url>", "the mailbox, to see whether it can be reached");
  add(
    "--health-port <port>",
    "the port for probes, to see whether it is free",
    parseCount(0, 65_535),
  );
  add("--health-host <host>", "where to listen for that (default: 0.0.0.0)");
  return command;
}

function settingsOf(io: Io, module: string | undefined, flags: Flags): Settings {
  const { mailbox, healthPort, healthHost = "0.0.0.0", watchdogThreshold = 720_000 } = flags;
  const named = flags.platform !== undefined;
  const platform = named ? platformOf(flags.platform) : detectPlatform(io.env);
  return {
    ...given({
      detectedBy: named ? undefined : platform.variable,
      graceMs: flags.grace ?? platform.graceMs,
      leaseIntervalMs: flags.leaseInterval,
      processingTimeMs: flags.processingTime,
      healthPort,
      mailbox,
      module,
    }),
    platform,
    shutdownTimeoutMs: flags.shutdownTimeout ?? 30_000,
    unreadyDelayMs: flags.unreadyDelay ?? 0,
    visibilityTimeoutMs: flags.visibilityTimeout ?? 300_000,
    leases: flags.lease,
    watchdogThresholdMs: watchdogThreshold === false ? null : watchdogThreshold,
    healthHost,
  };
}

const COLOURS = { ok: "green", warning: "yellow", problem: "red" } as const;

/** What is not well says why that matters, and what to change. */
function told(findings: readonly Finding[], style: Paint): readonly string[] {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const indent = " ".repeat("problem".length + width + 4);
  const lines = findings.flatMap(({ check, level, found, why, change }) => [
    `${style(COLOURS[level], level.padEnd(7))}  ${check.padEnd(width)}  ${oneLine(found)}`,
    ...(why === undefined ? [] : [`${indent}why: ${why}`]),
    ...(change === undefined ? [] : [`${indent}change: ${style("bold", oneLine(change))}`]),
  ]);
  const count = (level: Level) => findings.filter((it) => it.level === level).length;
  const sum = `${counted(count("problem"), "problem")}, ${counted(count("warning"), "warning")}`;
  return [...lines, "", count("problem") + count("warning") === 0 ? "all well" : sum];
}

/** Leaves out what is undefined, which is not the same as not given. */
function given<O extends object>(options: O): { [K in keyof O]?: NonNullable<O[K]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof O]?: NonNullable<O[K]> };
}
