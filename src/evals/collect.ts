import { show } from "../_checks.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { Collector } from "./_collector.ts";
import type { EvalResult } from "./eval_request.ts";
import { type Journal, MemoryJournal } from "./journal.ts";
import { Ledger } from "./_ledger.ts";
import type { ProgressView } from "./progress.ts";
import { checkEvaluationId } from "./submit.ts";

/** Options of {@linkcode collectResults}. */
export interface CollectOptions {
  /** Results of other evaluations are left in the mailbox for them. */
  readonly evaluationId: string;
  /** How many results there will be: samples times experiments. */
  readonly count: number;
  /** How long to wait for the next result. @default {60_000} */
  readonly idleMs?: number;
  /** How long to wait for all of them. @default {Infinity} */
  readonly timeoutMs?: number;
  /** Where results are kept before they are acknowledged. @default {in memory} */
  readonly journal?: Journal;
  /** Is told of every result. */
  readonly progress?: ProgressView;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
  /** What the timeouts are measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of results that cannot be read, and of an engine that is away. @default {libraryLog} */
  readonly log?: Log;
}

/** What {@linkcode collectResults} has found. */
export interface CollectedResults<O> {
  /** One for each sample and experiment: the first that came. */
  readonly results: readonly EvalResult<O>[];
  /** Whether that is all of them. */
  readonly complete: boolean;
}

/**
 * Takes the results of an evaluation from their mailbox, those of the journal first, until all are there
 * or the time is up. Results that come twice count once; those of other evaluations are left there.
 */
export async function collectResults<O>(
  mailbox: Mailbox<EvalResult<O>>,
  options: CollectOptions,
): Promise<CollectedResults<O>> {
  const { count: total, journal = new MemoryJournal(), progress, signal } = options;
  const { idleMs = 60_000, timeoutMs = Infinity, clock, log } = options;
  const evaluationId = checkEvaluationId(options.evaluationId);
  if (!Number.isInteger(total) || total < 0) {
    throw new RangeError(`Invalid count: expected a whole number from 0, got ${show(total)}`);
  }
  const ledger = new Ledger<O>({ evaluationId, total, journal, progress });
  const collector = new Collector(mailbox, ledger, {
    idleMs,
    timeoutMs,
    log,
    ...(clock === undefined ? {} : { clock }),
  });
  try {
    await ledger.open();
    await collector.run(signal === undefined ? {} : { signal });
  } finally {
    progress?.end();
  }
  return { results: ledger.results, complete: ledger.complete };
}
