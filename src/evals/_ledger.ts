import { contain } from "../_promises.ts";
import { type EvalResult, trialIdOf } from "./eval_request.ts";
import type { Journal } from "./journal.ts";
import type { EvalProgress, ProgressView } from "./progress.ts";

/** What a ledger is about. */
export interface LedgerOptions {
  readonly evaluationId: string;
  /** How many results there will be. */
  readonly total: number;
  /** Which ones. @default {any of the evaluation} */
  readonly isWanted?: ((trialId: string) => boolean) | undefined;
  readonly journal: Journal;
  readonly progress?: ProgressView | undefined;
}

/** The results of an evaluation so far, one for each sample and experiment: the first that came. */
export class Ledger<O> {
  readonly #options: LedgerOptions;
  readonly #results = new Map<string, EvalResult<O>>();
  #passed = 0;
  #errors = 0;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  get evaluationId(): string {
    return this.#options.evaluationId;
  }

  get results(): readonly EvalResult<O>[] {
    return [...this.#results.values()];
  }

  /** True when every result is there. */
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

  /** Begins with what the journal has. */
  async open(): Promise<void> {
    const results = await this.#options.journal.load();
    const stranger = results.find((it) => it.evaluationId !== this.evaluationId);
    if (stranger !== undefined) {
      throw new Error(
        `The journal is that of the evaluation "${stranger.evaluationId}", not of ` +
          `"${this.evaluationId}": give each evaluation one of its own`,
      );
    }
    this.#enter(results);
  }

  /** Keeps results in the journal, then here. Those that are there already change nothing. */
  async take(results: readonly EvalResult[]): Promise<void> {
    const fresh = new Map<string, EvalResult>();
    for (const result of results) {
      const id = trialIdOf(result);
      if (!this.has(id) && !fresh.has(id)) fresh.set(id, result);
    }
    if (fresh.size === 0) return;
    await this.#options.journal.append([...fresh.values()]);
    this.#enter(fresh.values());
  }

  #enter(results: Iterable<EvalResult>): void {
    const { isWanted, progress } = this.#options;
    for (const result of results) {
      const id = trialIdOf(result);
      if (this.has(id) || isWanted?.(id) === false) continue;
      this.#results.set(id, result as EvalResult<O>);
      if (result.score.passed) this.#passed++;
      if (result.error !== undefined) this.#errors++;
    }
    contain(() => progress?.update(this.progress), () => {}); // a view must not fail the evaluation
  }
}
