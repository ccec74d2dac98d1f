// How results look: for people, or with --json for programs.

import type { Command } from "commander";
import { fit, oneLine, type Paint, painter } from "../src/terminal/text.ts";
import type { Io, Sink } from "./_io.ts";

/** A value in a column, as text. */
export type Row = readonly string[];

/** Writes what a command found out. With `--json` every line of standard output is one JSON value. */
export interface Print {
  readonly json: boolean;
  /** One result: the value for programs, the text for people. */
  result(value: unknown, text: string): void;
  /** Many results: one JSON value a line, or a table. An empty table is the text `none`. */
  list<T>(values: readonly T[], columns: Row, row: (value: T) => Row, none: string): void;
  /** A remark for people on standard error; programs do not get it. */
  note(text: string): void;
}

/** What the command was told about its output. */
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

/** Colours only for a person who looks at it and has not set NO_COLOR. */
export function paint(io: Io, sink: Sink): Paint {
  return painter(sink.interactive && !io.env["NO_COLOR"]);
}

/** Columns as wide as their widest cell; on a terminal the last one ends with the line. */
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

/** `1 message`, `2 messages`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}
