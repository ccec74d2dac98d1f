import type { Log } from "../../log.ts";

const NO_MEMORY = "Redis has no memory left and refuses sends; receive messages, free memory or " +
  "raise its maxmemory. Messages that are there are worked off meanwhile";

/** What is wrong with a server that answers, as its answers tell. Says each change once. */
export class Condition {
  readonly #log: Log;
  #full = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** What it cannot do; undefined while it can do everything. */
  get trouble(): string | undefined {
    return this.#full ? NO_MEMORY : undefined;
  }

  /** Takes note of whether the server has memory left. */
  memory(full: boolean): void {
    if (full === this.#full) return;
    this.#full = full;
    if (full) this.#log.warn(NO_MEMORY);
    else this.#log.info("Redis has memory again and takes messages");
  }
}
