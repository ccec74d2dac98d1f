import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox, ReplyAddress } from "../mailbox/mailbox.ts";
import { checkExperiments, type Dataset, type Experiment } from "./dataset.ts";
import { checkEvaluationId, type EvalRequest, type EvalResult, trialId } from "./eval_request.ts";

/** Options of {@linkcode submitExperiments}. */
export interface SubmitExperimentsOptions<I, O, E> {
  /** The id of the evaluation. Submitting with the same id continues the same evaluation. */
  readonly evaluationId: string;
  /** The samples. */
  readonly dataset: Dataset<I, E>;
  /** The experiments, with unique names. */
  readonly experiments: readonly Experiment[];
  /** The mailbox for the results. @default {the `results` option of the loops} */
  readonly replyTo?: ReplyAddress<EvalResult<O>>;
  /** Returns true for trials to leave out, for example because they have a result already. */
  readonly isFinished?: (trialId: string) => boolean;
  /** Stops submitting. Messages that were sent stay in the mailbox. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode submitDataset}. */
export interface SubmitDatasetOptions<I, O, E>
  extends Omit<SubmitExperimentsOptions<I, O, E>, "experiments"> {
  /** The experiment to run the samples in. @default {`{ name: "default" }`} */
  readonly experiment?: Experiment;
}

/** The experiment of an evaluation without experiments. */
export const DEFAULT_EXPERIMENT: Experiment = { name: "default" };

const CONCURRENT_SENDS = 16;

/**
 * Sends a request for every sample of a dataset. Resolves with the number of requests sent. Message ids are
 * derived from evaluation, experiment and sample, so submitting again does not duplicate waiting requests.
 *
 * @throws {TypeError} when an option is invalid.
 */
export async function submitDataset<I, O, E>(
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  options: SubmitDatasetOptions<I, O, E>,
): Promise<number> {
  const { experiment = DEFAULT_EXPERIMENT, ...rest } = options;
  return await submitExperiments(requests, { ...rest, experiments: [experiment] });
}

/**
 * Sends a request for every sample in every experiment, sample by sample. Resolves with the number of
 * requests sent. See {@linkcode submitDataset}.
 *
 * @throws {TypeError} when an option is invalid.
 */
export async function submitExperiments<I, O, E>(
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  options: SubmitExperimentsOptions<I, O, E>,
): Promise<number> {
  const { dataset, replyTo, isFinished = () => false, signal } = options;
  const evaluationId = checkEvaluationId(options.evaluationId);
  const trials = trialsOf(evaluationId, dataset, checkExperiments(options.experiments));
  const reply = replyTo === undefined ? {} : { replyTo };
  const send = ({ id, request }: Trial<I, E>) => requests.send(request, { id, ...reply });
  return await sendTrials(trials, send, isFinished, signal);
}

/** A sample in an experiment. */
export interface Trial<I, E> {
  /** The {@linkcode trialId}. */
  readonly id: string;
  readonly request: EvalRequest<I, E>;
}

/** Yields every sample in every experiment, sample by sample. */
export function* trialsOf<I, E>(
  evaluationId: string,
  dataset: Dataset<I, E>,
  experiments: readonly Experiment[],
): Generator<Trial<I, E>> {
  for (const sample of dataset) {
    for (const experiment of experiments) {
      const id = trialId(evaluationId, experiment.name, sample.id);
      yield { id, request: { evaluationId, sample, experiment } };
    }
  }
}

/** Options of {@linkcode SubmitLoop}. */
export interface SubmitLoopOptions<I, O, E> extends LoopOptions {
  readonly trials: () => Generator<Trial<I, E>>;
  readonly isFinished: (trialId: string) => boolean;
  readonly replyTo: ReplyAddress<EvalResult<O>>;
  readonly log?: Log | undefined;
}

/** Sends the requests of an evaluation while other loops already handle the first ones. */
export class SubmitLoop<I, O, E> extends BaseLoop {
  readonly #requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>;
  readonly #options: SubmitLoopOptions<I, O, E>;

  constructor(
    requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
    options: SubmitLoopOptions<I, O, E>,
  ) {
    super("samples", options);
    this.#requests = requests;
    this.#options = options;
  }

  protected override async work({ stopping: signal, beat }: LoopContext): Promise<void> {
    const { trials, isFinished, replyTo, log } = this.#options;
    const retry = {
      clock: this.clock,
      log: safeLog(log),
      event: "send failed, retrying",
      mailbox: this.#requests.name,
      signal,
    };
    const send = async ({ id, request }: Trial<I, E>) => {
      beat();
      await retryUnavailable(() => this.#requests.send(request, { id, replyTo }), retry);
    };
    try {
      await sendTrials(trials(), send, isFinished, signal);
    } catch (error) {
      if (!signal.aborted) throw error; // after a stop, the next run sends the rest
    }
  }
}

/** Sends all unfinished trials in order. Resolves with their number. */
async function sendTrials<I, E>(
  trials: Generator<Trial<I, E>>,
  send: (trial: Trial<I, E>) => Promise<unknown>,
  isFinished: (trialId: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<number> {
  let count = 0;
  const sendSome = async () => {
    // The senders share one generator. It keeps the order, and a failed send closes it for all of them.
    for (const trial of trials) {
      if (signal?.aborted) return;
      if (isFinished(trial.id)) continue;
      await send(trial);
      count++;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_SENDS }, sendSome));
  return count;
}

/** Options of {@linkcode retryUnavailable}. */
export interface RetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The log line for a failed call, such as `receive failed, retrying`. */
  readonly event: string;
  /** The name of the mailbox, for the log. */
  readonly mailbox: string;
  /** Ends the retries: the last error is thrown. */
  readonly signal: AbortSignal;
}

const DELAY_MS = { min: 100, max: 1_000 } as const;

/** Calls `call` until it succeeds, as long as it fails because a mailbox is disconnected or full. */
export async function retryUnavailable<T>(
  call: () => Promise<T>,
  { clock, log, event, mailbox, signal }: RetryOptions,
): Promise<T> {
  for (let failures = 1;; failures++) {
    try {
      return await call();
    } catch (error) {
      const isTemporary = isMailboxError(error, "MailboxConnectionError") ||
        isMailboxError(error, "MailboxFullError");
      if (!isTemporary || signal.aborted) throw error;
      // Log failures 1, 2, 4, 8 and so on, so that a long outage does not flood the log.
      if (Number.isInteger(Math.log2(failures))) log.warn(event, { mailbox, error, failures });
      await clock.sleep(backoffMs(failures, DELAY_MS.min, DELAY_MS.max), { signal }).catch(() => {
        throw error;
      });
    }
  }
}
