import { checkCount, checkDuration } from "../_checks.ts";
import { onAbort } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { Log } from "../log.ts";
import { describeIssues } from "../loops/schema.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { checkEvaluationId, type EvalResult, resultIssues } from "./eval_request.ts";
import { type Journal, MemoryJournal, ResultSet } from "./journal.ts";
import type { ProgressView } from "./progress.ts";
import { retryUnavailable } from "./submit.ts";

/** Options of {@linkcode collectResults}. */
export interface CollectOptions {
  /** The id of the evaluation. Results of other evaluations stay in the mailbox. */
  readonly evaluationId: string;
  /** The number of results to wait for: samples times experiments. */
  readonly count: number;
  /** The longest wait for the next result. @default {60_000} */
  readonly idleMs?: number;
  /** The longest wait for all results. @default {Infinity} */
  readonly timeoutMs?: number;
  /** Stores results before they are acknowledged. @default {a new `MemoryJournal`} */
  readonly journal?: Journal;
  /** Shows the progress. */
  readonly progress?: ProgressView;
  /** Stops the wait. */
  readonly signal?: AbortSignal;
  /** The source of time for the timeouts. @default {systemClock} */
  readonly clock?: Clock;
  /** Receives warnings about invalid results and about a disconnected mailbox. @default {libraryLog} */
  readonly log?: Log;
}

/** The return value of {@linkcode collectResults}. */
export interface CollectedResults<O> {
  /** One result per sample and experiment, in the order of arrival. */
  readonly results: readonly EvalResult<O>[];
  /** True when all results have arrived. */
  readonly complete: boolean;
}

/**
 * Loads the results of an evaluation from the journal, and receives the others from a mailbox until all have
 * arrived or the time is up. Duplicates count once, and the first result wins.
 *
 * @throws {TypeError | RangeError} when an option is invalid.
 */
export async function collectResults<O>(
  mailbox: Mailbox<EvalResult<O>>,
  options: CollectOptions,
): Promise<CollectedResults<O>> {
  const { journal = new MemoryJournal(), progress, signal } = options;
  const { idleMs = 60_000, timeoutMs = Infinity, clock, log } = options;
  const evaluationId = checkEvaluationId(options.evaluationId);
  const total = checkCount("count", options.count, 0, Number.MAX_SAFE_INTEGER);
  const resultSet = new ResultSet<O>({ evaluationId, total, journal, progress });
  const loop = new CollectLoop(mailbox, resultSet, {
    idleMs,
    timeoutMs,
    log,
    ...(clock === undefined ? {} : { clock }),
  });
  try {
    await resultSet.load();
    await loop.run(signal === undefined ? {} : { signal });
  } finally {
    progress?.end();
  }
  return { results: resultSet.results, complete: resultSet.complete };
}

/** Options of {@linkcode CollectLoop}. */
export interface CollectLoopOptions extends LoopOptions {
  /** The longest wait for the next result. @default {Infinity} */
  readonly idleMs?: number;
  /** The longest wait for all results. @default {Infinity} */
  readonly timeoutMs?: number;
  /** Called when there is nothing more to wait for. The loop then waits for its stop. */
  readonly onEnd?: () => void;
  readonly log?: Log | undefined;
}

type ResultMessage<O> = Message<EvalResult<O>>;

/** Short, because storing results is fast: the results of a crashed collector are soon visible again. */
const VISIBILITY_MS = 5_000;
const WAIT_MS = 20_000;
/** Limits the memory of a batch: outputs may be large. */
const BATCH_SIZE = 100;
/** How long results of other evaluations stay hidden from this loop. */
const FOREIGN_DELAY_MS = 1_000;

/**
 * Receives results into a {@linkcode ResultSet} until all have arrived, the time is up, or it is stopped. On
 * a stop it also receives the results that are waiting, because the loops that send them have stopped before.
 */
export class CollectLoop<O> extends BaseLoop {
  readonly #mailbox: Mailbox<EvalResult<O>>;
  readonly #results: ResultSet<O>;
  readonly #options: CollectLoopOptions;
  readonly #log: Log;

  constructor(
    mailbox: Mailbox<EvalResult<O>>,
    results: ResultSet<O>,
    options: CollectLoopOptions = {},
  ) {
    super("results", options);
    checkDuration("idleMs", options.idleMs ?? Infinity);
    checkDuration("timeoutMs", options.timeoutMs ?? Infinity);
    this.#mailbox = mailbox;
    this.#results = results;
    this.#options = options;
    this.#log = safeLog(options.log);
  }

  /** Receives the results in the mailbox, also those that a crashed process received and did not store. */
  async receiveExisting(): Promise<void> {
    const endsAt = this.clock.monotonic() + VISIBILITY_MS + FOREIGN_DELAY_MS;
    for (let waitMs = 0; waitMs >= 0; waitMs = endsAt - this.clock.monotonic()) {
      await this.#receive(waitMs, undefined);
      while (await this.#receive(0, undefined) > 0);
      if (await this.#mailbox.approximateCount() === 0) return;
    }
  }

  protected override async work({ stopping, signal, beat }: LoopContext): Promise<void> {
    const retry = {
      clock: this.clock,
      log: this.#log,
      event: "receive failed, retrying",
      mailbox: this.#mailbox.name,
      signal: stopping,
    };
    const { idleMs = Infinity, timeoutMs = Infinity, onEnd } = this.#options;
    const endsAt = this.clock.monotonic() + timeoutMs;
    let idleSince = this.clock.monotonic();
    const leftMs = () => Math.min(endsAt, idleSince + idleMs) - this.clock.monotonic();
    while (!this.#results.complete && !stopping.aborted && !this.#mailbox.closed && leftMs() > 0) {
      const waitMs = Math.min(leftMs(), WAIT_MS);
      const { finished } = this.#results.progress;
      await retryUnavailable(() => this.#receive(waitMs, stopping), retry).catch((error) => {
        if (!stopping.aborted) throw error;
      });
      if (this.#results.progress.finished > finished) idleSince = this.clock.monotonic();
      beat();
    }
    if (onEnd !== undefined && !stopping.aborted) {
      onEnd();
      await new Promise<void>((resolve) => onAbort(stopping, resolve));
    }
    if (stopping.aborted) await this.#receiveRest(signal);
  }

  async #receiveRest(signal: AbortSignal): Promise<void> {
    try {
      while (await this.#receive(0, signal) > 0);
    } catch (error) {
      const { name: mailbox } = this.#mailbox;
      this.#log.warn("results left for the next run", { mailbox, error });
    }
  }

  /** Receives and stores a batch. Resolves with the number of messages, including foreign ones. */
  async #receive(waitTimeMs: number, signal: AbortSignal | undefined): Promise<number> {
    const messages = await this.#mailbox.receive({
      maxMessages: BATCH_SIZE,
      visibilityTimeoutMs: VISIBILITY_MS,
      waitTimeMs,
      ...(signal === undefined ? {} : { signal }),
    });
    const own: ResultMessage<O>[] = [];
    for (const message of messages) if (await this.#isOwn(message)) own.push(message);
    try {
      await this.#results.store(own.map(({ body }) => body));
    } catch (error) {
      await Promise.allSettled(own.map((message) => message.release()));
      throw error;
    }
    await this.#acknowledge(own);
    return messages.length;
  }

  /** Ignores failures: the result is delivered again, and the result set ignores the duplicate. */
  async #acknowledge(messages: readonly ResultMessage<O>[]): Promise<void> {
    try {
      if (messages.length === 0) return;
      if (this.#mailbox.acknowledgeMany !== undefined) {
        await this.#mailbox.acknowledgeMany(messages);
      } else await Promise.all(messages.map((message) => message.acknowledge()));
    } catch (error) {
      this.#log.warn("acknowledge failed, results will be redelivered", { error });
    }
  }

  /** Dead-letters a message that is not a result, and nacks a result of another evaluation. */
  async #isOwn(message: ResultMessage<O>): Promise<boolean> {
    const issues = resultIssues(message.body);
    const { name: mailbox } = this.#mailbox;
    if (issues.length > 0) {
      const error = describeIssues(issues);
      this.#log.error("invalid result dead-lettered", { mailbox, id: message.id, error });
      await message.deadLetter({ reason: "schema", error });
      return false;
    }
    const { evaluationId } = message.body;
    if (evaluationId === this.#results.evaluationId) return true;
    this.#log.debug("result of another evaluation left in the mailbox", { mailbox, evaluationId });
    await message.nack({ delayMs: FOREIGN_DELAY_MS, countsAttempt: false });
    return false;
  }
}
