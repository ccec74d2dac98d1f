import { EventLoopYield } from "../../_event_loop_yield.ts";
import { type Clock, nextTurn } from "../../clock.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { isMailboxError, MailboxClosedError } from "../../mailbox/errors.ts";
import { systemRandom } from "../../random.ts";
import {
  connectionError,
  type Durability,
  type OpenFile,
  openFile,
  type OpenFileOptions,
  retryWhileBusy,
} from "./_file.ts";
import { addLocal, DataVersionWatch, type Topic } from "./_wake_ups.ts";

/** A change that waits for its transaction. */
interface Job {
  readonly work: () => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

/** The maximum number of changes per transaction. A longer one would block other processes. */
const MAX_JOBS = 1_000;

/** Minimum time between checks of the file. A check costs a tenth of a send. */
const FILE_CHECK_INTERVAL_MS = 1;

/**
 * One connection to a file. Changes that are requested together, or while others wait for the file, share a
 * transaction, and each resolves after its commit.
 *
 * `unopened ─▶ open ─▶ closing ─▶ closed`. While it is closing, it still accepts changes, so that late
 * receivers can release their messages.
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
  /** The end of the turn of the event loop in which work of `writeShared` has begun. */
  #sharedTurn: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #checkedAt = -Infinity;

  constructor(path: string, options: OpenFileOptions, pollIntervalMs: number) {
    this.path = path;
    this.#options = options;
    this.#clock = options.clock;
    this.#turns = EventLoopYield.of(options.clock);
    this.#watch = new DataVersionWatch(
      options.clock,
      options.random ?? systemRandom,
      pollIntervalMs,
      () => this.#dataVersion(),
    );
  }

  /** Opens the file and creates it if it does not exist. */
  async open(): Promise<void> {
    this.#file = await openFile(this.path, this.#options);
  }

  /** The resolved path of the file. */
  get realPath(): string {
    return this.opened.realPath;
  }

  get durability(): Durability {
    return this.#options.durability;
  }

  /** True when the file has tables of another program. */
  get sharedFile(): boolean {
    return this.#options.sharedFile === true;
  }

  get opened(): OpenFile {
    if (this.#file === undefined) {
      throw new MailboxClosedError(
        `Cannot use the SQLite file "${this.path}": this mailbox has closed it. Open the mailbox again`,
      );
    }
    return this.#file;
  }

  /** True once `close` was called. No messages may be leased then. */
  get closing(): boolean {
    return this.#closing !== undefined;
  }

  /** Runs `work`, which only reads. */
  read<T>(work: () => T): Maybe<T> {
    try {
      this.#checkFile();
      const result = retryWhileBusy(this.#options, work);
      return result instanceof Promise ? result.catch((error) => this.#fail(error)) : result;
    } catch (error) {
      return this.#fail(error);
    }
  }

  /**
   * Runs `work` within a transaction and resolves after its commit. A mailbox error, which `work` throws
   * before it changes anything, rejects this call only; any other error rolls back the whole transaction.
   */
  write<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ work, resolve, reject });
      this.#begin();
    });
  }

  /**
   * Does the same for work that many callbacks in a turn of the event loop may request. The first call of a turn
   * begins at once. The others share the transaction that begins when the turn ends.
   */
  writeShared<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ work, resolve, reject });
      const turn = this.#turns.end();
      if (turn === this.#sharedTurn) turn.then(() => this.#beginShared());
      else this.#beginShared();
    });
  }

  /** Calls `listener` after a change of the queue by this process, and after any by another connection. */
  onChange(queue: string, topic: Topic, listener: () => void): () => void {
    if (this.closing) return () => {};
    const removeLocal = addLocal(this.realPath, queue, topic, listener);
    const stopWatching = this.#watch.add(listener);
    return () => {
      removeLocal();
      stopWatching();
    };
  }

  /** Closes the file after the pending changes. Waits for `last`, which may change the file as well. */
  close(last?: () => Promise<void>): Promise<void> {
    return this.#closing ??= this.#close(last);
  }

  async #close(last?: () => Promise<void>): Promise<void> {
    this.#watch.stop();
    // A caller that has just received messages releases them within this turn.
    await nextTurn();
    await last?.();
    while (this.#flushing !== undefined || this.#jobs.length > 0) {
      await this.#flushing;
      await nextTurn();
    }
    const file = this.#file;
    this.#file = undefined;
    file?.database.close();
  }

  #beginShared(): void {
    if (this.#jobs.length === 0) return; // another transaction included the work
    this.#sharedTurn = this.#turns.end();
    this.#begin();
  }

  #begin(): void {
    this.#flushing ??= this.#flush();
  }

  async #flush(): Promise<void> {
    while (this.#jobs.length > 0) {
      await this.#turns.next();
      try {
        await retryWhileBusy(this.#options, () => this.#transact());
      } catch (error) {
        this.#reject(this.#jobs.splice(0), error);
      }
    }
    this.#flushing = undefined;
  }

  /** Synchronous, so that no other work of this process runs within the transaction. */
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
        // After severe errors SQLite has rolled back by itself and refuses a second rollback.
      }
      return this.#reject(jobs, error);
    }
    for (const settleOne of settle) settleOne();
  }

  #reject(jobs: readonly Job[], error: unknown): void {
    const reason = connectionError(this.path, error);
    for (const { reject } of jobs) reject(reason);
  }

  #fail(error: unknown): never {
    throw connectionError(this.path, error);
  }

  /** Throws when the path does not lead to the opened file any more. */
  #checkFile(): void {
    const now = this.#clock.monotonic();
    if (now - this.#checkedAt < FILE_CHECK_INTERVAL_MS) return;
    this.opened.identity.check();
    this.#checkedAt = now; // not after a failure: the next call checks again
  }

  #dataVersion(): number {
    this.#checkFile();
    const row = this.opened.statements.dataVersion.get() as { readonly data_version: number };
    return row.data_version;
  }
}
