import { type Command, Option } from "commander";
import { CliError, toCliError, usageError } from "../_errors.ts";
import { fetchReadiness, fetchStatus, healthUrl } from "../_health_client.ts";
import { watch } from "../_interrupt.ts";
import type { Io } from "../_io.ts";
import { live } from "../_live.ts";
import { examples, HEALTH_URL, parseDuration } from "../_options.ts";
import { paint, printer } from "../_print.ts";
import { type Report, statusLine, statusLines, whyNotReady } from "../_status_text.ts";

interface Flags {
  readonly watch?: boolean;
  readonly every: number;
}

/** Adds `lastcall status`, which shows the state of a running group. */
export function addStatus(program: Command, io: Io): void {
  program.command("status")
    .description("Show the state of a running group. Exit code 0 when it is ready, 1 when not.")
    .argument("<url>", HEALTH_URL)
    .option("-w, --watch", "repeat until Ctrl+C; in a pipe: one line a change")
    .addOption(
      new Option("--every <time>", "the interval of --watch")
        .argParser(parseDuration).default(1_000, "1s"),
    )
    .addHelpText(
      "after",
      examples(
        ["lastcall status localhost:8080", "once"],
        ["lastcall status localhost:8080 --watch", "until Ctrl+C"],
        ["lastcall status https://shop.example/worker --json", "under a path, as JSON"],
        ["lastcall status :8080 > /dev/null && echo ready", "in a script"],
      ),
    )
    .action(async (url: string, flags: Flags, command: Command) => {
      const base = healthUrl(url);
      if (flags.every < 1) throw usageError("--every must be above 0: write 500ms or 5s");
      const { json } = printer(io, command);
      if (flags.watch) return await watchStatus(io, base, flags.every, json);
      const report = await fetchReport(base);
      const lines = json
        ? [JSON.stringify(report)]
        : statusLines(base, report, io.out, paint(io, io.out));
      io.out.write(`${lines.join("\n")}\n`);
      const why = whyNotReady(report);
      if (why !== undefined) throw new CliError("failed", `${base} is not ready: ${why}`);
    });
}

async function fetchReport(base: string, signal?: AbortSignal): Promise<Report> {
  const status = await fetchStatus(base, signal);
  // /status does not include the health app's own readiness checks.
  const { ready, failed } = await fetchReadiness(base, signal);
  return { ...status, ready: status.ready && ready, failed };
}

/** Redraws a terminal at every interval; writes a line to a pipe only after a change. */
async function watchStatus(io: Io, base: string, everyMs: number, json: boolean): Promise<void> {
  const style = paint(io, io.out);
  const screen = io.out.interactive && !json ? live(io.out) : undefined;
  let last: string | undefined;
  await watch(io, everyMs, async (signal) => {
    const found = await fetchReport(base, signal).catch(toCliError);
    if (signal.aborted) return;
    const failed = found instanceof CliError;
    if (screen !== undefined) {
      return screen.show(
        failed ? [style("red", found.message)] : statusLines(base, found, io.out, style),
      );
    }
    const line = failed ? found.message : statusLine(found);
    if (line === last) return;
    last = line;
    if (!json) return io.out.write(`${new Date().toISOString()} ${line}\n`);
    const { message, code } = failed ? found : { message: "", code: "" };
    io.out.write(`${JSON.stringify(failed ? { error: { message, code } } : found)}\n`);
  });
  screen?.leave();
}
