// The text of `lastcall status`.

import { oneLine, type Paint } from "../src/terminal/text.ts";
import type { FailedCheck, StatusAnswer } from "./_health_client.ts";
import type { Sink } from "./_io.ts";
import { ageText, counted, type Row, table } from "./_print.ts";

/** The status of a group with its failed readiness checks. */
export interface Report extends StatusAnswer {
  readonly failed: readonly FailedCheck[];
}

/** `--json` shows all work that the health app reports. */
const MAX_WORK = 10;

/** Returns why the group is not ready, or undefined when it is. */
export function whyNotReady({ ready, phase, paused, stop, failed }: Report): string | undefined {
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
export function statusLine(report: Report): string {
  const { loops, phase } = report;
  const why = whyNotReady(report);
  const dead = report.mailboxes?.reduce((sum, it) => sum + (it.deadLetters ?? 0), 0) ?? 0;
  return [
    why === undefined ? `ready, ${phase}` : `not ready: ${phase === "running" ? why : phase}`,
    counted(loops.length, "loop"),
    `${inFlightOf(report)} in flight`,
    ...(dead > 0 ? [counted(dead, "dead letter")] : []),
  ].join(", ");
}

/** Counts the work in flight of all loops. */
export function inFlightOf({ loops }: StatusAnswer): number {
  return loops.reduce((sum, { inFlight }) => sum + inFlight, 0);
}

/** Formats the whole status. */
export function statusLines(
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
  return [head, ...shown].join("\n").split("\n");
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
  const only = (wanted: boolean, ...cells: string[]) => wanted ? cells : [];
  return {
    columns: [
      ...["LOOP", "STATE", "READY", "IN FLIGHT", "OLDEST"],
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
  const work = report.loops.flatMap(({ name, work = [] }) => work.map((it) => ({ ...it, name })))
    .sort((a, b) => b.ageMs - a.ageMs);
  const rows = work.slice(0, MAX_WORK).map(({ id, name, ageMs }) => [id, name, ageText(ageMs)]);
  const more = inFlightOf(report) - rows.length;
  if (rows.length > 0 && more > 0) rows.push([`… and ${more} more`, "", ""]);
  return { columns: ["IN FLIGHT", "LOOP", "AGE"], rows };
}

function mailboxTable({ mailboxes = [] }: StatusAnswer): Table {
  return {
    columns: ["MAILBOX", "MESSAGES", "DEAD LETTERS"],
    rows: mailboxes.map(({ name, reachable, messages, deadLetters, error }) =>
      reachable
        ? [name, `${messages ?? ""}`, `${deadLetters ?? ""}`]
        : [name, `unreachable: ${error ?? "no answer"}`, ""]
    ),
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
