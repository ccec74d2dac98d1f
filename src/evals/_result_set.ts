import { contain } from "../_promises.ts";
import { type EvalResult, trialIdOf } from "./eval_request.ts";
import type { Journal } from "./journal.ts";
import type { EvalProgress, ProgressView } from "./progress.ts";

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
