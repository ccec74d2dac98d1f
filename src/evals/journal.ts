import { appendFile, open, readFile, truncate } from "node:fs/promises";
import { contain } from "../_promises.ts";
import { describeIssues } from "../loops/schema.ts";
import { type EvalResult, resultIssues, trialIdOf } from "./eval_request.ts";
import type { EvalProgress, ProgressView } from "./progress.ts";

/**
 * Stores results, so that an interrupted evaluation can continue. A journal belongs to one evaluation, and
 * only one process may use it at a time.
 */
export interface Journal {
  /** Resolves with all stored results. `evaluate` and `collectResults` call it once, before `append`. */
  load(): Promise<readonly EvalResult[]>;
  /** Stores results. When it resolves, they survive a crash of the process. */
  append(results: readonly EvalResult[]): Promise<void>;
}

/** Stores results in memory. They are lost when the process exits. */
export class MemoryJournal implements Journal {
  readonly #results: EvalResult[] = [];

  /** Resolves with all stored results. */
  load(): Promise<readonly EvalResult[]> {
    return Promise.resolve([...this.#results]);
  }

  /** Stores results in memory. */
  append(results: readonly EvalResult[]): Promise<void> {
    this.#results.push(...results);
    return Promise.resolve();
  }
}

/**
 * Stores results in a file, one line of JSON per result. `load` removes a last line that a crash left
 * incomplete; the evaluation then collects that result again.
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
  /** The path of the file. */
  readonly path: string;
  /** The size of all complete lines in bytes. */
  #size = 0;

  /**
   * Creates a journal. It does not touch the file before `load`.
   *
   * @throws {TypeError} when the path is not a non-empty string.
   */
  constructor(path: string) {
    if (typeof path !== "string" || path === "") {
      throw new TypeError("Invalid path of a journal: expected the path of a file");
    }
    this.path = path;
  }

  /**
   * Resolves with all stored results. Creates the file if it does not exist.
   *
   * @throws {Error} when the file cannot be written, or a line is not a result.
   */
  async load(): Promise<readonly EvalResult[]> {
    await (await open(this.path, "a")).close(); // fail now, not after the first result
    const bytes = await readFile(this.path);
    this.#size = bytes.lastIndexOf(0x0a) + 1;
    if (this.#size < bytes.length) await truncate(this.path, this.#size);
    const lines = bytes.subarray(0, this.#size).toString("utf8").split("\n");
    return lines.flatMap((line, i) => {
      return line.trim() === ""
        ? []
        : [parseResult(line, `Line ${i + 1} of the journal ${this.path}`)];
    });
  }

  /** Appends one line per result: all of them, or none when it rejects. */
  async append(results: readonly EvalResult[]): Promise<void> {
    const text = results.map((result) => `${JSON.stringify(result)}\n`).join("");
    try {
      await appendFile(this.path, text);
    } catch (error) {
      // A full disk can leave half a line, and the next line must not continue it.
      await truncate(this.path, this.#size).catch(() => {});
      throw error;
    }
    this.#size += new TextEncoder().encode(text).byteLength;
  }
}

/** Parses a line of a journal. `place` names it in the error. */
export function parseResult(line: string, place: string): EvalResult {
  let problem: string;
  try {
    const value = JSON.parse(line);
    const issues = resultIssues(value);
    if (issues.length === 0) return value;
    problem = describeIssues(issues);
  } catch (error) {
    problem = (error as Error).message;
  }
  throw new Error(
    `${place} is not a result: ${problem}. Repair the line, or remove it to evaluate its sample again.`,
  );
}

/** Options of {@linkcode ResultSet}. */
export interface ResultSetOptions {
  readonly evaluationId: string;
  /** The number of results of the complete evaluation. */
  readonly total: number;
  /** Returns false for trials that do not count. @default {all trials count} */
  readonly isWanted?: ((trialId: string) => boolean) | undefined;
  readonly journal: Journal;
  readonly progress?: ProgressView | undefined;
}

/** Holds the results of an evaluation, one per trial. The first result of a trial wins. */
export class ResultSet<O> {
  readonly #options: ResultSetOptions;
  readonly #results = new Map<string, EvalResult<O>>();
  #passed = 0;
  #errors = 0;

  constructor(options: ResultSetOptions) {
    this.#options = options;
  }

  get evaluationId(): string {
    return this.#options.evaluationId;
  }

  get results(): readonly EvalResult<O>[] {
    return [...this.#results.values()];
  }

  get complete(): boolean {
    return this.#results.size >= this.#options.total;
  }

  get progress(): EvalProgress {
    const { evaluationId, total } = this.#options;
    const finished = this.#results.size;
    return { evaluationId, total, finished, passed: this.#passed, errors: this.#errors };
  }

  has(trialId: string): boolean {
    return this.#results.has(trialId);
  }

  /** Adds the results of the journal. */
  async load(): Promise<void> {
    const results = await this.#options.journal.load();
    const foreign = results.find((it) => it.evaluationId !== this.evaluationId);
    if (foreign !== undefined) {
      throw new Error(
        `The journal belongs to the evaluation "${foreign.evaluationId}", not to ` +
          `"${this.evaluationId}". Use one journal per evaluation.`,
      );
    }
    this.#add(results);
  }

  /** Appends results to the journal and then adds them. Ignores results of trials that have one. */
  async store(results: readonly EvalResult[]): Promise<void> {
    const fresh = new Map<string, EvalResult>();
    for (const result of results) {
      const id = trialIdOf(result);
      if (!this.has(id) && !fresh.has(id)) fresh.set(id, result);
    }
    if (fresh.size === 0) return;
    await this.#options.journal.append([...fresh.values()]);
    this.#add(fresh.values());
  }

  #add(results: Iterable<EvalResult>): void {
    const { isWanted, progress } = this.#options;
    for (const result of results) {
      const id = trialIdOf(result);
      if (this.has(id) || isWanted?.(id) === false) continue;
      this.#results.set(id, result as EvalResult<O>);
      if (result.score.passed) this.#passed++;
      if (result.error !== undefined) this.#errors++;
    }
    contain(() => progress?.update(this.progress), () => {}); // a failing view must not stop the evaluation
  }
}
