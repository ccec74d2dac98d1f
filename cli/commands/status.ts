import { type Command, Option } from "commander";
import type { MailboxStatus } from "../../src/health/status.ts";
import type { MessageInFlight } from "../../src/lifecycle/runnable.ts";
import { oneLine, type Paint } from "../../src/terminal/text.ts";
import { CliError, toCliError, usageError } from "../_errors.ts";
import {
  type FailedCheck,
  fetchReadiness,
  fetchStatus,
  healthUrl,
  inFlightOf,
  type StatusAnswer,
} from "../_health.ts";
import { type Io, type Sink, watch } from "../_io.ts";
import { live } from "../_live.ts";
import { examples, HEALTH_URL, parseDuration } from "../_options.ts";
import { ageText, counted, paint, printer, type Row, statsTable, table } from "../_print.ts";

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

/** The status of a group with its failed readiness checks. */
interface Report extends StatusAnswer {
  readonly failed: readonly FailedCheck[];
}

/** `--json` shows all work that the health app reports. */
const MAX_WORK = 10;

/** Returns why the group is not ready, or undefined when it is. */
function whyNotReady({ ready, phase, paused, stop, failed }: Report): string | undefined {
  if (ready) return undefined;
  if (phase !== "running") {
    if (stop === undefined) return phase;
    const left = `${ageText(stop.remainingMs)} of ${ageText(stop.timeoutMs)} left`;
    return `${phase} (${oneLine(stop.reason)}), ${left}`;
  }
  if (paused) return "paused until resumed";
  return failed.map(({ name, why }) => `${oneLine(name)}: ${oneLine(why)}`).join("; ") ||
    "a loop is not ready";
}

/** Formats the status in one line, without ages and rates, which always change. */
function statusLine(report: Report): string {
  const { loops, phase } = report;
  const why = whyNotReady(report);
  const { mailboxes = [] } = report;
  const dead = mailboxes.reduce((sum, it) => sum + (it.dead ?? 0), 0);
  const paused = mailboxes.filter((it) => it.paused).map(({ name }) => oneLine(name));
  return [
    why === undefined ? `ready, ${phase}` : `not ready: ${phase === "running" ? why : phase}`,
    counted(loops.length, "loop"),
    `${inFlightOf(report)} in flight`,
    ...(dead > 0 ? [counted(dead, "dead letter")] : []),
    ...paused.map((name) => `mailbox ${name} paused`),
  ].join(", ");
}

/** Formats the whole status. */
function statusLines(
  base: string,
  report: Report,
  sink: Sink,
  style: Paint,
): readonly string[] {
  const why = whyNotReady(report);
  const state = why === undefined ? style("green", "ready") : style("red", `not ready: ${why}`);
  const on = report.runtime === undefined ? "" : `, on ${oneLine(report.runtime)}`;
  const tables = [loopTable(report), workTable(report), mailboxTable(report), agentTable(report)];
  const shown = tables.filter(({ rows }) => rows.length > 0)
    .map(({ columns, rows }) => `\n${table(columns, rows, sink, style)}`.trimEnd());
  const head = `${base}  ${state}${why === undefined ? `, ${report.phase}${on}` : ""}`;
  return [`${head}${processText(report)}`, ...shown].join("\n").split("\n");
}

/** Names the process: `  worker-1 (version 7.2, pid 12, up 5m)`. */
function processText({ process, at = Date.now() }: StatusAnswer): string {
  if (process === undefined) return "";
  const { name, version, pid, startedAt } = process;
  const facts = [
    ...(version === undefined ? [] : [`version ${version}`]),
    ...(pid === undefined ? [] : [`pid ${pid}`]),
    `up ${ageText(at - startedAt)}`,
  ];
  return `  ${oneLine(`${name} (${facts.join(", ")})`)}`;
}

interface Table {
  readonly columns: Row;
  readonly rows: readonly Row[];
}

function loopTable({ loops }: StatusAnswer): Table {
  const rates = loops.some(({ perSecond }) => perSecond !== undefined);
  const restarts = loops.some((it) => it.restarts > 0);
  const mailboxes = loops.some(({ mailbox }) => mailbox !== undefined);
  const counts = loops.some((it) => it.counts !== undefined);
  const ahead = loops.some((it) => (it.ahead?.waiting ?? 0) > 0);
  const only = (wanted: boolean, ...cells: string[]) => wanted ? cells : [];
  return {
    columns: [
      ...["LOOP", "STATE", "READY", "IN FLIGHT", "OLDEST"],
      ...only(ahead, "WAITING"),
      ...only(counts, "ACKNOWLEDGED", "FAILED"),
      ...only(rates, "PER SECOND"),
      ...only(restarts, "RESTARTS"),
      ...only(mailboxes, "MAILBOX"),
    ],
    rows: loops.map((loop) => [
      loop.name,
      loop.state,
      loop.ready ? "yes" : "no",
      `${loop.inFlight}`,
      loop.inFlight > 0 ? ageText(loop.oldestMs) : "",
      ...only(ahead, `${loop.ahead?.waiting ?? ""}`),
      ...only(
        counts,
        `${loop.counts?.acknowledged ?? ""}`,
        `${loop.counts === undefined ? "" : loop.counts.nacked + loop.counts.deadLettered}`,
      ),
      ...only(rates, loop.perSecond?.toFixed(1) ?? ""),
      ...only(restarts, `${loop.restarts}`),
      ...only(mailboxes, loop.mailbox ?? ""),
    ]),
  };
}

function workTable(report: StatusAnswer): Table {
  const work = report.loops.flatMap(({ name, work = [], messages = [] }) => {
    const progress = new Map(messages.map((message) => [message.id, message]));
    return work.map((it) => ({ ...progress.get(it.id), ...it, name }));
  }).sort((a, b) => b.ageMs - a.ageMs).slice(0, MAX_WORK);
  const attempts = work.some(({ attempt = 1 }) => attempt > 1);
  const steps = work.some(({ finishedSteps = 0 }) => finishedSteps > 0);
  const only = (wanted: boolean, cell: string) => wanted ? [cell] : [];
  const rows = work.map((it) => [
    it.id,
    it.name,
    ageText(it.ageMs),
    ...only(attempts, `${it.attempt ?? ""}`),
    ...only(steps, finishedSteps(it)),
  ]);
  const columns = [
    ...["IN FLIGHT", "LOOP", "AGE"],
    ...only(attempts, "ATTEMPT"),
    ...only(steps, "FINISHED STEPS"),
  ];
  const more = inFlightOf(report) - rows.length;
  if (rows.length > 0 && more > 0) {
    rows.push(columns.map((_, at) => at === 0 ? `… and ${more} more` : ""));
  }
  return { columns, rows };
}

/** Lists the finished steps; the last ones, if there are many. */
function finishedSteps({ steps = [], finishedSteps = 0 }: Partial<MessageInFlight>): string {
  return [...(finishedSteps > steps.length ? ["…"] : []), ...steps].join(", ");
}

function mailboxTable({ mailboxes = [] }: StatusAnswer): Table {
  const problem = ({ reachable, error }: MailboxStatus) =>
    reachable ? error ?? "" : `unreachable: ${error ?? "no answer"}`;
  const problems = mailboxes.some((mailbox) => problem(mailbox) !== "");
  const { columns, row } = statsTable(mailboxes);
  return {
    columns: ["MAILBOX", ...columns, ...(problems ? ["PROBLEM"] : [])],
    rows: mailboxes.map((mailbox) => [
      mailbox.name,
      ...row(mailbox),
      ...(problems ? [problem(mailbox)] : []),
    ]),
  };
}

function agentTable({ agents = [], at = Date.now() }: StatusAnswer): Table {
  return {
    columns: ["AGENT", "STATUS", "SINCE"],
    rows: agents.map(({ agentId, status, updatedAt }) => [
      agentId,
      status,
      updatedAt === undefined ? "" : ageText(at - updatedAt),
    ]),
  };
}
