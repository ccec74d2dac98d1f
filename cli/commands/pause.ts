// `lastcall pause` and `lastcall resume`.

import { type Command, Option } from "commander";
import { systemClock } from "../../mod.ts";
import { oneLine } from "../../src/terminal/text.ts";
import { CliError, usageError } from "../_errors.ts";
import { fetchStatus, healthUrl, inFlightOf, sendControl, type StatusAnswer } from "../_health.ts";
import { interruption, type Io, sleep } from "../_io.ts";
import { live, progressBar } from "../_live.ts";
import { hasScheme, MAILBOXES, withMailbox } from "../_mailbox.ts";
import { examples, parseDuration, parseInterval, tokenOption } from "../_options.ts";
import { ageText, printer } from "../_print.ts";
import { pauseQueue, resumeQueue } from "./queue_control.ts";

interface Flags {
  readonly token?: string;
  readonly wait: boolean;
  readonly timeout: number;
  readonly for?: number;
}

const TARGET = "a group: http://host:8080, host:8080 or :8080; or a queue: the URL of its mailbox";

const POLL_MS = 200;
/** After this many failed requests in a row the group counts as gone. */
const MAX_FAILURES = 3;

/** Adds `lastcall pause`, which pauses a running group, or a queue in all processes. */
export function addPause(program: Command, io: Io): void {
  program.command("pause")
    .description(
      "Tell a running group to take no new work, and wait until nothing is in flight. The process " +
        "keeps running: resume makes it take work again. With the URL of a mailbox: deliver its " +
        "messages to no process until it is resumed, through restarts. Work in flight goes on.",
    )
    .argument("[url]", TARGET)
    .option("--for <time>", "of a queue: how long; a longer pause is not shortened", parseInterval)
    .addOption(tokenOption())
    .option("--no-wait", "of a group: do not wait until nothing is in flight")
    .addOption(
      new Option("--timeout <time>", "of a group: how long to wait").argParser(parseDuration)
        .default(60_000, "60s"),
    )
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["LASTCALL_TOKEN=… lastcall pause localhost:8080", "waits until nothing is in flight"],
        ["lastcall pause localhost:8080 --timeout 5m", "waits longer"],
        ["lastcall pause localhost:8080 --no-wait", "does not wait"],
        ["lastcall resume localhost:8080", "takes work again"],
        ["lastcall pause sqlite:./jobs.db", "a queue, in all processes"],
        ["lastcall pause sqlite:./jobs.db --for 30s", "a queue, for 30 seconds"],
        ["lastcall resume sqlite:./jobs.db", "delivers again"],
      ),
    )
    .action(async (given: string | undefined, flags: Flags, command: Command) => {
      const { group, queue } = targetOf(io, given);
      const print = printer(io, command);
      if (queue !== undefined) {
        for (const name of ["wait", "timeout"]) {
          if (command.getOptionValueSource(name) === "default") continue;
          const flag = name === "wait" ? "--no-wait" : "--timeout";
          throw usageError(`${flag} is for groups: the pause of a queue does not wait`);
        }
        return await withMailbox(queue, { create: false }, (mailbox) => {
          return pauseQueue(mailbox, flags.for, print);
        });
      }
      if (flags.for !== undefined) {
        throw usageError("--for is for queues: a group is paused until it is resumed");
      }
      await sendControl(group, "pause", flags.token);
      if (!flags.wait) return print.result({ state: "pausing" }, `${group} is pausing`);
      const waitedMs = await waitUntilPaused(io, group, flags.timeout, print.json);
      print.result(
        { state: "paused", inFlight: 0, waitedMs },
        `${group} is paused: nothing in flight after ${ageText(waitedMs)}`,
      );
    });
}

/** Adds `lastcall resume`, which ends a pause. */
export function addResume(program: Command, io: Io): void {
  program.command("resume")
    .description(
      "Tell a paused group to take work again, or deliver the messages of a paused queue again.",
    )
    .argument("[url]", TARGET)
    .addOption(tokenOption())
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["LASTCALL_TOKEN=… lastcall resume localhost:8080", "after a pause of a group"],
        ["lastcall resume sqlite:./jobs.db", "after a pause of a queue"],
      ),
    )
    .action(async (
      given: string | undefined,
      { token }: { readonly token?: string },
      command: Command,
    ) => {
      const { group, queue } = targetOf(io, given);
      const print = printer(io, command);
      if (queue !== undefined) {
        return await withMailbox(queue, { create: false }, (it) => resumeQueue(it, print));
      }
      await sendControl(group, "resume", token);
      print.result({ state: "resumed" }, `${group} takes work again`);
    });
}

/** What a command pauses: a group by the base URL of its health app, or a queue by its mailbox. */
type Target =
  | { readonly group: string; readonly queue?: never }
  | { readonly group?: never; readonly queue: string };

function targetOf(
  io: Io,
  given: string | undefined = io.env["LASTCALL_MAILBOX"] || undefined,
): Target {
  if (given === undefined) {
    throw usageError("No URL: give that of a group, as localhost:8080, or of a mailbox");
  }
  if (hasScheme(given)) return { queue: given };
  return { group: healthUrl(given, "of a health app or a mailbox") };
}

/** Resolves when nothing is in flight, to the milliseconds that this took. */
async function waitUntilPaused(
  io: Io,
  base: string,
  timeoutMs: number,
  json: boolean,
): Promise<number> {
  const began = systemClock.monotonic();
  const view = pauseView(io, json);
  const interrupted = interruption(io);
  const { signal } = interrupted;
  let last: StatusAnswer | undefined;
  try {
    for (let failures = 0;;) {
      try {
        last = await fetchStatus(base, signal);
        failures = 0;
      } catch (error) {
        if (!signal.aborted && ++failures >= MAX_FAILURES) throw gone(base, last, error);
      }
      const elapsedMs = Math.round(systemClock.monotonic() - began);
      if (signal.aborted) {
        const { code, exitCode } = signal.reason as CliError;
        throw new CliError(code, stillPausing("Stopped waiting", base, last), { exitCode });
      }
      if (last?.paused && failures === 0 && inFlightOf(last) === 0) return elapsedMs;
      if (last?.paused === false && failures === 0) {
        throw new CliError("failed", `${base} was resumed during the pause and takes work again`);
      }
      if (elapsedMs >= timeoutMs) {
        const what = `Not paused within ${ageText(timeoutMs)}`;
        throw new CliError("failed", stillPausing(what, base, last));
      }
      if (last !== undefined) view.show(last, elapsedMs);
      await sleep(Math.min(POLL_MS, timeoutMs - elapsedMs), signal);
    }
  } finally {
    view.end();
    interrupted.end();
  }
}

function stillPausing(what: string, base: string, last: StatusAnswer | undefined): string {
  const left = last === undefined ? "" : ` with ${inFlightOf(last)} in flight`;
  return `${what}: ${base} is still pausing${left}; lastcall status shows its progress`;
}

function gone(base: string, last: StatusAnswer | undefined, cause: unknown): CliError {
  const left = last === undefined ? "" : `; the last answer had ${inFlightOf(last)} in flight`;
  return new CliError("unavailable", `${base} does not answer any more${left}`, { cause });
}

/** Shows the progress of a pause. */
interface PauseView {
  show(status: StatusAnswer, elapsedMs: number): void;
  end(): void;
}

/** Returns a bar for a terminal, one line a change for a pipe, and nothing with `--json`. */
function pauseView(io: Io, json: boolean): PauseView {
  if (json) return { show() {}, end() {} };
  return io.err.interactive ? terminalView(io) : pipeView(io);
}

function terminalView(io: Io): PauseView {
  const screen = live(io.err);
  let most = 0;
  return {
    show(status, elapsedMs) {
      const left = inFlightOf(status);
      most = Math.max(most, left);
      const head = `pausing  ${progressBar(most - left, most)}  ${most - left} of ${most}, ` +
        `${left} left, ${ageText(elapsedMs)}`;
      screen.show([head, ...busyLoops(status).map((text) => `  ${text}`)]);
    },
    end: () => screen.clear(),
  };
}

function pipeView(io: Io): PauseView {
  let last = -1;
  return {
    show(status) {
      const left = inFlightOf(status);
      if (left === last || left === 0) return;
      last = left;
      io.err.write(`pausing, ${left} in flight: ${busyLoops(status).join("; ")}\n`);
    },
    end() {},
  };
}

/** Describes the loops with work in flight, busiest first. */
function busyLoops({ loops }: StatusAnswer): readonly string[] {
  return loops.filter(({ inFlight }) => inFlight > 0)
    .sort((a, b) => b.inFlight - a.inFlight)
    .map(({ name, inFlight, oldestMs }) =>
      `${oneLine(name)} ${inFlight}, oldest ${ageText(oldestMs)}`
    );
}
