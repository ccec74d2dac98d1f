/** Waits for what a process does, without looking at a clock: whoever hears from it says so. */
export class Waiting {
  readonly #safetyMs: number;
  readonly #picture: () => string;
  readonly #checks = new Set<() => void>();

  /** `safetyMs` is longer than anything but a bug lasts; `picture` shows what there was by then. */
  constructor(safetyMs: number, picture: () => string) {
    this.#safetyMs = safetyMs;
    this.#picture = picture;
  }

  /** Something has happened. */
  look(): void {
    for (const check of this.#checks) check();
  }

  /** Resolves when the condition holds; rejects with `failed`, or when it takes too long. */
  async until(condition: () => boolean, what: string, failed?: Promise<unknown>): Promise<void> {
    if (condition()) return;
    let check!: () => void;
    let limit!: ReturnType<typeof setTimeout>;
    try {
      await new Promise<void>((resolve, reject) => {
        check = () => condition() && resolve();
        this.#checks.add(check);
        failed?.catch(reject);
        const late = `Waited ${this.#safetyMs} ms for ${what}`;
        limit = setTimeout(() => reject(new Error(late + this.#picture())), this.#safetyMs);
      });
    } finally {
      clearTimeout(limit);
      this.#checks.delete(check);
    }
  }
}
