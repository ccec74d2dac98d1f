/** What is known of one message. */
interface Entry {
  completions: number;
  readonly history: string[];
}

/** What became of every message, kept where no fault strikes. */
export class Ledger {
  readonly #entries = new Map<string, Entry>();
  readonly #startedAt = performance.now();
  /** Messages whose handler has ended at least once. */
  completed = 0;
  /** Messages whose handler has ended more than once. */
  readonly duplicated: Set<string> = new Set();
  /** Messages that have spent an attempt without being completed by it. */
  readonly repeated: Set<string> = new Set();

  /** A handler has begun with a message. */
  begin(worker: string, id: string, attempt: number): void {
    if (attempt > 1) this.repeated.add(id);
    this.#note(id, `begun by ${worker}, attempt ${attempt}`);
  }

  /** A handler has ended. */
  done(worker: string, id: string): void {
    const entry = this.#note(id, `done by ${worker}`);
    if (++entry.completions === 1) this.completed++;
    else this.duplicated.add(id);
  }

  /** Those of the messages 1 to `sent` that were not completed. */
  missing(sent: number): string[] {
    const ids = Array.from({ length: sent }, (_, i) => `${i + 1}`);
    return ids.filter((id) => (this.#entries.get(id)?.completions ?? 0) === 0);
  }

  /** All that happened to a message. */
  history(id: string): string {
    return this.#entries.get(id)?.history.join("; ") ?? "never begun";
  }

  #note(id: string, what: string): Entry {
    const entry = this.#entries.get(id) ?? { completions: 0, history: [] };
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    entry.history.push(`${seconds.toFixed(2)} s: ${what}`);
    this.#entries.set(id, entry);
    return entry;
  }
}
