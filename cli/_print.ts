// Results as text for people, or with --json as one JSON value a line.

import type { Command } from "commander";
import type { Log } from "../mod.ts";
import type { MessageEnvelope, PeekedMessage } from "../src/engine.ts";
import { logLine } from "../src/log.ts";
import type { MailboxStats, RateLimit } from "../src/mailbox/mailbox.ts";
import { fit, oneLine, type Paint, painter } from "../src/terminal/text.ts";
import type { Io, Sink } from "./_io.ts";

/** The cells of a table row. */
export type Row = readonly string[];

/** Writes the results of a command. */
export interface Print {
  /** True with `--json`: every line of standard output is one JSON value. */
  readonly json: boolean;
  /** Writes one result: the value with `--json`, the text otherwise. */
  result(value: unknown, text: string): void;
  /** Writes a list: one JSON value a line, or a table. An empty table is the text `none`. */
  list<T>(values: readonly T[], columns: Row, row: (value: T) => Row, none: string): void;
  /** Writes a remark to standard error, except with `--json`. */
  note(text: string): void;
}

/** Returns the printer of a command. */
export function printer(io: Io, command: Command): Print {
  const json = command.optsWithGlobals()["json"] === true;
  return {
    json,
    result: (value, text) => io.out.write(`${json ? JSON.stringify(value) : text}\n`),
    list(values, columns, row, none) {
      if (json) { for (const value of values) io.out.write(`${JSON.stringify(value)}\n`); }
      else if (values.length === 0) io.out.write(`${none}\n`);
      else io.out.write(table(columns, values.map(row), io.out, paint(io, io.out)));
    },
    note: (text) => {
      if (!json) io.err.write(`${text}\n`);
    },
  };
}

/** Returns the painter of a sink. Only terminals get colours, and only without NO_COLOR. */
export function paint(io: Io, sink: Sink): Paint {
  return painter(sink.interactive && !io.env["NO_COLOR"]);
}

/** Formats a table. On a terminal its lines are cut at the right edge. */
export function table(columns: Row, rows: readonly Row[], sink: Sink, style: Paint): string {
  const clean = rows.map((row) => row.map(oneLine));
  const widths = columns.map((name, at) =>
    Math.max(name.length, ...clean.map((row) => row[at]!.length))
  );
  const line = (row: Row) => {
    const text = row.map((cell, at) => cell.padEnd(widths[at]!)).join("  ").trimEnd();
    return sink.interactive ? fit(text, sink.columns) : text;
  };
  return [style("bold", line(columns)), ...clean.map(line)].join("\n") + "\n";
}

/** Returns the columns of the counts of mailboxes, with their limits where one has a limit. */
export function statsTable(all: readonly Partial<MailboxStats>[]): {
  readonly columns: Row;
  readonly row: (stats: Partial<MailboxStats>) => Row;
} {
  const limited = all.some(({ rateLimit }) => rateLimit !== undefined);
  const columns = ["WAITING", "DELAYED", "IN FLIGHT", "DEAD", "OLDEST", "PAUSED"];
  return {
    columns: limited ? [...columns, "LIMIT"] : columns,
    row: (stats) => limited ? [...statsRow(stats), limitCell(stats)] : statsRow(stats),
  };
}

/** Returns the counts of a mailbox as cells. A cell is empty where the engine cannot tell. */
function statsRow(stats: Partial<MailboxStats>): Row {
  const { waiting, delayed, inFlight, dead, oldestWaitingMs, paused, pausedForMs } = stats;
  const left = pausedForMs === undefined ? "" : `, ${ageText(pausedForMs)} left`;
  return [
    ...[waiting, delayed, inFlight, dead].map((count) => `${count ?? ""}`),
    oldestWaitingMs === undefined ? "" : ageText(oldestWaitingMs),
    paused === undefined ? "" : paused ? `yes${left}` : "no",
  ];
}

function limitCell({ rateLimit }: Partial<MailboxStats>): string {
  return rateLimit === undefined ? "" : rateText(rateLimit);
}

/** Formats a pause: `paused until it is resumed`, `paused for another 30 s`. */
export function pauseText({ pausedForMs }: Pick<MailboxStats, "pausedForMs">): string {
  return pausedForMs === undefined
    ? "paused until it is resumed"
    : `paused for another ${ageText(pausedForMs)}`;
}

const RATE_UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000]] as const;

/** Formats a rate limit as `lastcall limit` takes it: `100/s`, `10/500ms`. */
export function rateText({ max, perMs }: RateLimit): string {
  const [unit, unitMs] = RATE_UNITS.find(([, ms]) => perMs % ms === 0) ?? ["ms", 1];
  const amount = perMs / unitMs;
  return `${max}/${amount === 1 ? "" : amount}${unit}`;
}

/** One detail of a message: its name, and its value where it has one. */
export type Detail = readonly [name: string, value: string | undefined];

/** Formats details, one a line. Leaves out those without a value. */
export function detailLines(details: readonly Detail[]): string {
  const shown = details.filter(([, value]) => value !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value = ""]) => `${name.padEnd(width)}  ${oneLine(value)}`).join("\n");
}

/** Returns the fields that the sender has set. */
export function envelopeDetails(
  message: MessageEnvelope & Pick<PeekedMessage<unknown>, "enqueuedAt" | "checkpoint" | "steps">,
): readonly Detail[] {
  const { headers = {}, expiresInMs, enqueuedAt, maxDeliveries, priority } = message;
  return [
    ["key", message.key],
    ["priority", priority?.toString()],
    ["expires at", expiresInMs === undefined ? undefined : timeText(enqueuedAt + expiresInMs)],
    ["if expired", message.onExpired],
    ["max deliveries", maxDeliveries?.toString()],
    ["backoff", JSON.stringify(message.backoff)],
    ["reply to", message.replyTo],
    ["headers", Object.keys(headers).length === 0 ? undefined : JSON.stringify(headers)],
    ["checkpoint", JSON.stringify(message.checkpoint)],
    ["steps", message.steps?.map(({ name }) => name).join(", ")],
  ];
}

/** Formats milliseconds since the Unix epoch. */
export function timeText(ms: number): string {
  return Number.isNaN(new Date(ms).getTime()) ? String(ms) : new Date(ms).toISOString();
}

/** Formats a count: `1 message`, `2 messages`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

/** Formats an age in its largest unit: `3 s`, `2 min`, `5 h`, `12 d`. */
export function ageText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/**
 * Returns the log of `run --json` and `demo --json`: one JSON value a line on standard error. The
 * report of the shutdown is the result, so it goes to standard output.
 */
export function jsonLog(io: Io): Log {
  const at = (level: keyof Log) => (message: string, properties: Record<string, unknown> = {}) => {
    const { report } = properties;
    if (report !== undefined) return io.out.write(`${JSON.stringify({ report })}\n`);
    io.err.write(`${logLine(level, message, properties)}\n`);
  };
  return { debug: () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}
