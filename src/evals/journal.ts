import type { EvalResult } from "./eval_request.ts";

/**
 * Where finished results are kept, so that an evaluation that was interrupted goes on where it stopped. A
 * journal is that of one evaluation, and of one process at a time.
 */
export interface Journal {
  /** Everything that was ever appended. Called first, and once. */
  load(): Promise<readonly EvalResult[]>;
  /** Keeps results. Once this has resolved, they are there when the process is not. */
  append(results: readonly EvalResult[]): Promise<void>;
}

/** A journal that ends with the process. */
export class MemoryJournal implements Journal {
  readonly #results: EvalResult[] = [];

  /** What was appended since it was made. */
  load(): Promise<readonly EvalResult[]> {
    return Promise.resolve([...this.#results]);
  }

  /** Keeps them in memory. */
  append(results: readonly EvalResult[]): Promise<void> {
    this.#results.push(...results);
    return Promise.resolve();
  }
}
