import { type Command, Option } from "commander";
import { systemClock } from "../../mod.ts";
import { drainView } from "../_drain_view.ts";
import { ageText, parseDuration } from "../_duration.ts";
import { CliError } from "../_errors.ts";
import { askStatus, order, type StatusAnswer, tokenOption } from "../_health_client.ts";
import { healthUrl } from "../_health_url.ts";
import { examples } from "../_help.ts";
import { interruption } from "../_interruption.ts";
import type { Io } from "../_io.ts";
import { printer } from "../_print.ts";
import { inFlightOf } from "../_status_text.ts";
import { pause } from "../_watch.ts";

interface Flags {
  readonly token?: string;
  readonly wait: boolean;
  readonly timeout: number;
}

/** How often the group is asked what is left. */
const EVERY_MS = 200;
/** One look may go wrong; after so many in a row nobody is there any more. */
const PATIENCE = 3;

/** `lastcall drain`: lets a running group finish what it has, without ending it. */
export function addDrain(program: Command, io: Io): void {
  program.command("drain")
    .description(
      "Tell a running group to take no new work, and wait until nothing is in flight. It does not " +
        "end: resume makes it go on.",
    )
    .argument("<url>", "where it answers probes: http://host:8080, host:8080, :8080")
    .addOption(tokenOption())
    .option("--no-wait", "only tell it")
    .addOption(
      new Option("--timeout <time>", "how long to wait").argParser(parseDuration)
        .default(60_000, "60s"),
    )
    .addHelpText(
      "after",
      examples(
        ["LASTCALL_TOKEN=… lastcall drain localhost:8080", "waits until all is done"],
        ["lastcall drain localhost:8080 --timeout 5m", "for longer"],
        ["lastcall drain localhost:8080 --no-wait", "does not wait"],
        ["lastcall resume localhost:8080", "takes work again"],
      ),
    )
    .action(async (url: string, flags: Flags, command: Command) => {
      const base = healthUrl(url);
      const { json, result } = printer(io, command);
      await order(base, "drain", flags.token);
      if (!flags.wait) return result({ state: "draining" }, `${base} is draining`);
      const waitedMs = await drained(io, base, flags.timeout, json);
      result(
        { state: "drained", inFlight: 0, waitedMs },
        `${base} is drained: nothing is in flight, after ${ageText(waitedMs)}`,
      );
    });
}

/** Resolves when nothing is in flight, to how long that took. */
async function drained(io: Io, base: string, timeoutMs: number, json: boolean): Promise<number> {
  const began = systemClock.monotonic();
  const view = drainView(io, json);
  const interrupted = interruption(io);
  const { signal } = interrupted;
  let last: StatusAnswer | undefined;
  try {
    for (let failures = 0;;) {
      try {
        last = await askStatus(base, signal);
        failures = 0;
      } catch (error) {
        if (!signal.aborted && ++failures >= PATIENCE) throw gone(base, last, error);
      }
      const elapsedMs = Math.round(systemClock.monotonic() - began);
      if (signal.aborted) {
        const { code, exitCode } = signal.reason as CliError;
        throw new CliError(code, stillDraining("Not waited for", base, last), { exitCode });
      }
      if (last?.drained && failures === 0 && inFlightOf(last) === 0) return elapsedMs;
      if (last?.drained === false && failures === 0) {
        throw failed(`${base} was resumed by somebody: it takes work again`);
      }
      if (elapsedMs >= timeoutMs) {
        throw failed(stillDraining(`Not drained within ${ageText(timeoutMs)}`, base, last));
      }
      if (last !== undefined) view.show(last, elapsedMs);
      await pause(Math.min(EVERY_MS, timeoutMs - elapsedMs), signal);
    }
  } finally {
    view.end();
    interrupted.end();
  }
}

function failed(message: string): CliError {
  return new CliError("failed", message);
}

function stillDraining(what: string, base: string, last: StatusAnswer | undefined): string {
  const left = last === undefined ? "" : ` with ${inFlightOf(last)} in flight`;
  return `${what}: ${base} goes on draining${left}; lastcall status tells how far it is`;
}

function gone(base: string, last: StatusAnswer | undefined, cause: unknown): CliError {
  const left = last === undefined ? "" : `, the last time with ${inFlightOf(last)} in flight`;
  return new CliError("unavailable", `${base} does not answer any more${left}`, { cause });
}
