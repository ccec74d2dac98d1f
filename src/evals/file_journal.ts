import { appendFile, open, readFile, truncate } from "node:fs/promises";
import { describeIssues } from "../loops/schema.ts";
import { type EvalResult, resultIssues } from "./eval_request.ts";
import type { Journal } from "./journal.ts";

/**
 * A journal in a file, one result a line. A line counts once its end is written: what a crash has left
 * half written is cut off, and its result is collected again.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { FileJournal } from "@lastcall/lastcall/evals";
 *
 * const folder = await mkdtemp(join(tmpdir(), "evaluation-"));
 * const journal = new FileJournal(join(folder, "capitals.jsonl"));
 * console.assert((await journal.load()).length === 0);
 * await rm(folder, { recursive: true });
 * ```
 */
export class FileJournal implements Journal {
  /** Where the file is. */
  readonly path: string;
  /** How much of the file is whole lines. */
  #size = 0;

  /** Touches nothing: `load` makes the file. */
  constructor(path: string) {
    if (typeof path !== "string" || path === "") {
      throw new TypeError("Invalid path of a journal: expected that of a file");
    }
    this.path = path;
  }

  /** Makes the file where there is none. Throws when a line within it is no result. */
  async load(): Promise<readonly EvalResult[]> {
    await (await open(this.path, "a")).close(); // fails now, not after the first result
    const bytes = await readFile(this.path);
    this.#size = bytes.lastIndexOf(0x0a) + 1;
    if (this.#size < bytes.length) await truncate(this.path, this.#size);
    const lines = bytes.subarray(0, this.#size).toString("utf8").split("\n");
    return lines.flatMap((line, i) => line.trim() === "" ? [] : [this.#read(line, i + 1)]);
  }

  /** Writes whole lines, or none of them. */
  async append(results: readonly EvalResult[]): Promise<void> {
    const text = results.map((result) => `${JSON.stringify(result)}\n`).join("");
    try {
      await appendFile(this.path, text);
    } catch (error) {
      // The disk may be full in the middle of a line, and what follows must not be glued to it.
      await truncate(this.path, this.#size).catch(() => {});
      throw error;
    }
    this.#size += new TextEncoder().encode(text).byteLength;
  }

  #read(line: string, number: number): EvalResult {
    const [value, why] = parse(line);
    if (why === undefined) return value as EvalResult;
    throw new Error(
      `Line ${number} of the journal ${this.path} is no result (${why}): mend it, or remove it to ` +
        "have its sample evaluated again",
    );
  }
}

function parse(line: string): readonly [value: unknown, why?: string] {
  try {
    const value = JSON.parse(line);
    const issues = resultIssues(value);
    return issues.length === 0 ? [value] : [value, describeIssues(issues)];
  } catch (error) {
    return [undefined, (error as Error).message];
  }
}
