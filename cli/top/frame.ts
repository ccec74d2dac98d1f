// The view of `lastcall top` as tables for a terminal, and as lines for a pipe.

import { bar, oneLine, type Paint } from "../../src/terminal/text.ts";
import type { Sink } from "../_io.ts";
import { ageText, counted, rateText, type Row, statsTable, table } from "../_print.ts";
import type { QueueRow, View, WorkerRow } from "./sources.ts";

/** The orders of queues, by the name that the view shows. */
export const SORTS: Readonly<Record<string, (queue: QueueRow) => number | string>> = {
  backlog: (queue) => -backlog(queue),
  oldest: ({ oldestWaitingMs = -1 }) => -oldestWaitingMs,
  dead: ({ dead = 0 }) => -dead,
  name: ({ name }) => name,
};

function backlog({ waiting = 0, delayed = 0, inFlight = 0 }: QueueRow): number {
  return waiting + delayed + inFlight;
}

/** Returns the queues in an order; equal ones by name. */
export function sorted(queues: readonly QueueRow[], sort: string): readonly QueueRow[] {
  const key = SORTS[sort]!;
  const compare = (a: number | string, b: number | string) => a < b ? -1 : a > b ? 1 : 0;
  return queues.toSorted((a, b) => compare(key(a), key(b)) || compare(a.name, b.name));
}

interface Table {
  readonly columns: Row;
  readonly rows: readonly Row[];
}

/** Formats the view in at most `height` lines. */
export function frame(
  { workers, queues, away }: View,
  height: number,
  sink: Sink,
  style: Paint,
): readonly string[] {
  const errors = away.map(({ at, message }) => style("red", oneLine(`${at}  ${message}`)));
  const tables = [workerTable(workers), queueTable(queues)].filter(({ rows }) => rows.length > 0);
  // Each table has a blank line and its columns besides its rows.
  let left = height - errors.length - 2 * tables.length;
  const shown = tables.flatMap(({ columns, rows }, at) => {
    const others = tables.slice(at + 1).reduce((sum, it) => sum + it.rows.length, 0);
    const room = Math.max(1, left - Math.min(others, Math.floor(left / 2)));
    const cut = rows.length <= room ? rows : [
      ...rows.slice(0, room - 1),
      columns.map((_, cell) => cell === 0 ? `… and ${rows.length - room + 1} more` : ""),
    ];
    left -= cut.length;
    return ["", ...table(columns, cut, sink, style).trimEnd().split("\n")];
  });
  return [...errors, ...shown];
}

const STOP_BAR = 10;

function workerTable(workers: readonly WorkerRow[]): Table {
  return {
    columns: [
      ...[
        "WORKER",
        "PHASE",
        "LOOPS",
        "IN FLIGHT",
        "OLDEST",
        "PER SECOND",
        "ACKNOWLEDGED",
        "FAILED",
      ],
    ],
    rows: workers.map((it) => [
      it.name === undefined ? it.at : `${it.name} ${it.at}`,
      phaseText(it),
      `${it.loops}`,
      `${it.inFlight}`,
      it.inFlight > 0 ? ageText(it.oldestMs) : "",
      it.perSecond?.toFixed(1) ?? "",
      `${it.acknowledged}`,
      `${it.failed}`,
    ]),
  };
}

function phaseText({ phase, ready, paused, stop }: WorkerRow): string {
  if (stop !== undefined && phase !== "stopped") {
    const share = stop.timeoutMs === 0 ? 1 : 1 - stop.remainingMs / stop.timeoutMs;
    return `${phase} ${bar(share, STOP_BAR)} ${ageText(stop.remainingMs)} left`;
  }
  return paused ? "paused" : ready ? phase : `${phase}, not ready`;
}

function queueTable(queues: readonly QueueRow[]): Table {
  const { columns, row } = statsTable(queues);
  const places = new Set(queues.map(({ at }) => at)).size > 1;
  return {
    columns: ["QUEUE", ...columns, "CHANGE/S", ...(places ? ["AT"] : [])],
    rows: queues.map((queue) => [
      queue.name,
      ...row(queue),
      changeText(queue),
      ...(places ? [queue.at] : []),
    ]),
  };
}

function changeText({ changePerSecond: change }: QueueRow): string {
  if (change === undefined) return "";
  return `${change > 0 ? "+" : ""}${change.toFixed(1)}`;
}

/** Formats the view as lines, one per worker, queue and error. */
export function plainLines({ workers, queues, away }: View): readonly string[] {
  return [
    ...workers.map((it) => `worker ${it.at}: ${workerText(it)}`),
    ...queues.map((it) => `queue ${it.name} at ${it.at}: ${queueText(it)}`),
    ...away.map(({ at, message }) => `error ${at}: ${message}`),
  ].map(oneLine);
}

function workerText(worker: WorkerRow): string {
  const { loops, inFlight, perSecond, stop, phase } = worker;
  return [
    stop === undefined ? phaseText(worker) : `${phase}, ${ageText(stop.remainingMs)} left`,
    counted(loops, "loop"),
    `${inFlight} in flight`,
    ...(perSecond === undefined ? [] : [`${perSecond.toFixed(1)} per second`]),
  ].join(", ");
}

function queueText(queue: QueueRow): string {
  const { waiting, delayed, inFlight, dead, oldestWaitingMs, paused, rateLimit } = queue;
  const count = (value: number | undefined, what: string) =>
    value === undefined ? [] : [`${value} ${what}`];
  return [
    ...count(waiting, "waiting"),
    ...count(delayed, "delayed"),
    ...count(inFlight, "in flight"),
    ...count(dead, "dead"),
    ...(oldestWaitingMs === undefined ? [] : [`oldest ${ageText(oldestWaitingMs)}`]),
    ...(queue.changePerSecond === undefined ? [] : [`${changeText(queue)} per second`]),
    ...(paused ? ["paused"] : []),
    ...(rateLimit === undefined ? [] : [`limit ${rateText(rateLimit)}`]),
  ].join(", ");
}
