import { EventLoopYield } from "../../_event_loop_yield.ts";
import { type Clock, nextTurn } from "../../clock.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { isMailboxError, MailboxClosedError } from "../../mailbox/errors.ts";
import { DataVersionWatch } from "./_data_version_watch.ts";
import { connectionError } from "./_errors.ts";
import { type OpenFile, openFile, type OpenFileOptions } from "./_open_file.ts";
import { patiently } from "./_patience.ts";

/** One change that waits for its transaction. */
interface Job {
  readonly work: () => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

/** More changes than this do not share a transaction: it would keep others waiting. */
const MAX_JOBS = 1_000;

/** A look at the file costs as much as a tenth of a send, so not each of many calls looks. */
const LOOK_MS = 1;

/**
 * One connection to a file. Changes that are asked for in the same breath share a transaction, and none
 * is confirmed before its commit.
 *
 * `unopened ─▶ open ─▶ closing ─▶ closed`. While it is closing, changes are still made, so that what was
 * taken too late can be given back.
 */
export class Connection {
  readonly path: string;
  readonly #options: OpenFileOptions;
  readonly #clock: Clock;
  readonly #turns: EventLoopYield;
  readonly #watch: DataVersionWatch;
  #file: OpenFile | undefined;
  #jobs: Job[] = [];
  #flushing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #lookedAt = -Infinity;

  constructor(path: string, options: OpenFileOptions, pollIntervalMs: number) {
    this.path = path;
    this.#options = options;
    this.#clock = options.clock;
    this.#turns = EventLoopYield.of(options.clock);
    this.#watch = new DataVersionWatch(options.clock, pollIntervalMs, () => this.#dataVersion());
  }

  /** Opens the file, and makes it where it is not there yet. */
  async open(): Promise<void> {
    this.#file = await openFile(this.path, this.#options);
  }

  /** The file, whatever path led to it. */
  get realPath(): string {
    return this.opened.realPath;
  }

  get opened(): OpenFile {
    if (this.#file === undefined) {
      throw new MailboxClosedError(`The SQLite file "${this.path}" is closed here`);
    }
    return this.#file;
  }

  /** True from the moment on when nothing may be taken any more. */
  get closing(): boolean {
    return this.#closing !== undefined;
  }

  /** Reads what is committed. */
  read<T>(work: () => T): Maybe<T> {
    try {
      this.#checkFile();
      const result = patiently(this.#clock, work);
      return result instanceof Promise ? result.catch((error) => this.#fail(error)) : result;
    } catch (error) {
      return this.#fail(error);
    }
  }

  /**
   * Does `work` within a transaction and resolves after its commit. An error of a mailbox, thrown before
   * anything was changed, concerns this work alone; any other undoes the whole transaction.
   */
  write<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ work, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  /** Calls `listener` after another connection has changed the file. */
  onForeignChange(listener: () => void): () => void {
    return this.#watch.add(listener);
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#watch.stop();
    // Whoever was handed something at this very moment gives it back within this turn.
    for (await nextTurn(); this.#flushing !== undefined; await nextTurn()) await this.#flushing;
    const file = this.#file;
    this.#file = undefined;
    file?.database.close();
  }

  async #flush(): Promise<void> {
    while (this.#jobs.length > 0) {
      await this.#turns.next();
      try {
        await patiently(this.#clock, () => this.#transact());
      } catch (error) {
        this.#reject(this.#jobs.splice(0), error);
      }
    }
    this.#flushing = undefined;
  }

  /** From begin to end without a pause: nothing else of this process can come in between. */
  #transact(): void {
    const { begin, commit, rollback } = this.opened.statements;
    this.#checkFile();
    begin.run();
    const jobs = this.#jobs.splice(0, MAX_JOBS);
    const settle: (() => void)[] = [];
    try {
      for (const { work, resolve, reject } of jobs) {
        try {
          const result = work() as never;
          settle.push(() => resolve(result));
        } catch (error) {
          if (!isMailboxError(error)) throw error;
          settle.push(() => reject(error));
        }
      }
      commit.run();
    } catch (error) {
      try {
        rollback.run();
      } catch {
        // After the worst errors SQLite has rolled back by itself, and says that there is nothing to do.
      }
      return this.#reject(jobs, error);
    }
    for (const tell of settle) tell();
  }

  #reject(jobs: readonly Job[], error: unknown): void {
    const reason = connectionError(this.path, error);
    for (const { reject } of jobs) reject(reason);
  }

  #fail(error: unknown): never {
    throw connectionError(this.path, error);
  }

  /** Refuses to go on with a file that its path does not lead to any more. */
  #checkFile(): void {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.opened.identity.check();
    this.#lookedAt = now; // not after a failure: the next call looks again
  }

  #dataVersion(): number {
    this.#checkFile();
    const row = this.opened.statements.dataVersion.get() as { readonly data_version: number };
    return row.data_version;
  }
}
