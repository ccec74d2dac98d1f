// The conformance table: which cases of the mailbox contract each engine passes on each runtime.

import { readFileSync } from "node:fs";
import { ENGINES } from "../src/engines/registry.ts";
import type { RuntimeName } from "./runtimes.ts";

/** The environment variable with the file to which the tests append records, one a line. */
export const CONFORMANCE_FILE = "LASTCALL_CONFORMANCE_FILE";

/** The environment variable with the engines that must be tested, separated by commas. */
export const REQUIRED_ENGINES = "LASTCALL_REQUIRED_ENGINES";

/** The result of one case. */
export interface CaseRecord {
  readonly engine: string;
  readonly runtime: RuntimeName;
  /** `lacking` if the engine's capabilities exclude the case. */
  readonly result: "passed" | "failed" | "lacking";
}

/** Reads the records of a file. Ignores a last line without a newline, which may be incomplete. */
export function readRecords(path: string): readonly CaseRecord[] {
  return readFileSync(path, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

/** Formats a table with a row per engine and a column per runtime. */
export function conformanceTable(
  records: readonly CaseRecord[],
  runtimes: readonly RuntimeName[],
): string {
  const rows = ENGINES.map(({ name, runtimes: supported = runtimes }) => [
    name,
    ...runtimes.map((it) => supported.includes(it) ? cell(of(records, name, it)) : "–"),
  ]);
  return [["contract", ...runtimes], ...rows]
    .map((cells) => cells.map((it) => it.padEnd(13)).join("").trimEnd()).join("\n");
}

/** Returns the required engines that passed no case on a runtime. */
export function missingEngines(
  records: readonly CaseRecord[],
  runtimes: readonly RuntimeName[],
  required: readonly string[],
): readonly string[] {
  const known = ENGINES.map(({ name }) => name);
  const unknown = required.filter((engine) => !known.includes(engine));
  if (unknown.length > 0) {
    throw new Error(`Unknown engine ${unknown.join(", ")}: expected one of ${known.join(", ")}`);
  }
  return runtimes.flatMap((runtime) =>
    required
      .filter((engine) => !of(records, engine, runtime).some(({ result }) => result === "passed"))
      .map((engine) => `${engine} on ${runtime}`)
  );
}

function of(
  records: readonly CaseRecord[],
  engine: string,
  runtime: RuntimeName,
): readonly CaseRecord[] {
  return records.filter((it) => it.engine === engine && it.runtime === runtime);
}

function cell(records: readonly CaseRecord[]): string {
  if (records.length === 0) return "skipped";
  const count = (result: CaseRecord["result"]) =>
    records.filter((it) => it.result === result).length;
  const failed = count("failed");
  return failed > 0 ? `${failed} FAILED` : `${count("passed")} of ${records.length}`;
}
