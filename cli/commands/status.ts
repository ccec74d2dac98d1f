import { type Command, Option } from "commander";
import { parseDuration } from "../_duration.ts";
import { CliError, explain, usageError } from "../_errors.ts";
import { askReady, askStatus } from "../_health_client.ts";
import { healthUrl } from "../_health_url.ts";
import { examples } from "../_help.ts";
import type { Io } from "../_io.ts";
import { live } from "../_live.ts";
import { paint, printer } from "../_print.ts";
import { type Report, statusLine, statusLines, whyNotReady } from "../_status_text.ts";
import { watch } from "../_watch.ts";

interface Flags {
  readonly watch?: boolean;
  readonly every: number;
}

/** `lastcall status`: how a running group is doing. */
export function addStatus(program: Command, io: Io): void {
  program.command("status")
    .description("Ask a running group how it is doing. Exit code 0 when it is ready, 1 when not.")
    .argument("<url>", "where it answers probes: http://host:8080, host:8080, :8080")
    .option("-w, --watch", "look again and again, until Ctrl+C; piped: one line a change")
    .addOption(
      new Option("--every <time>", "how often to look, with --watch")
        .argParser(parseDuration).default(1_000, "1s"),
    )
    .addHelpText(
      "after",
      examples(
        ["lastcall status localhost:8080", "once"],
        ["lastcall status localhost:8080 --watch", "until Ctrl+C"],
        ["lastcall status https://shop.example/worker --json", "under a path, for programs"],
        ["lastcall status :8080 > /dev/null && echo ready", "in a script"],
      ),
    )
    .action(async (url: string, flags: Flags, command: Command) => {
      const base = healthUrl(url);
      if (flags.every < 1) throw usageError("--every must be above 0, as 500ms or 5s");
      const { json } = printer(io, command);
      if (flags.watch) return await watchStatus(io, base, flags.every, json);
      const report = await look(base);
      tell(io, base, report, json);
      const why = whyNotReady(report);
      if (why !== undefined) throw new CliError("failed", `${base} is not ready: ${why}`);
    });
}

async function look(base: string, signal?: AbortSignal): Promise<Report> {
  const status = await askStatus(base, signal);
  // The group does not know the checks that the health app makes beside it.
  const { ready, failed } = await askReady(base, signal);
  return { ...status, ready: status.ready && ready, failed };
}

function tell(io: Io, base: string, report: Report, json: boolean): void {
  const lines = json
    ? [JSON.stringify(report)]
    : statusLines(base, report, io.out, paint(io, io.out));
  io.out.write(`${lines.join("\n")}\n`);
}

/** A terminal is drawn anew at every look; others get a line when something has changed. */
async function watchStatus(io: Io, base: string, everyMs: number, json: boolean): Promise<void> {
  const style = paint(io, io.out);
  const screen = io.out.interactive && !json ? live(io.out) : undefined;
  let last: string | undefined;
  await watch(io, everyMs, async (signal) => {
    const found = await look(base, signal).catch((error) => explain(error));
    if (signal.aborted) return;
    const away = found instanceof CliError;
    if (screen !== undefined) {
      return screen.show(
        away ? [style("red", found.message)] : statusLines(base, found, io.out, style),
      );
    }
    const line = away ? found.message : statusLine(found);
    if (line === last) return;
    last = line;
    if (!json) return io.out.write(`${new Date().toISOString()} ${line}\n`);
    const { message, code } = away ? found : { message: "", code: "" };
    io.out.write(`${JSON.stringify(away ? { error: { message, code } } : found)}\n`);
  });
  screen?.leave();
}
