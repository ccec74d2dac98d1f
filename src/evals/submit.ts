import type { Mailbox, ReplyAddress } from "../mailbox/mailbox.ts";
import { show } from "../_checks.ts";
import type { Dataset } from "./dataset.ts";
import { type EvalRequest, type EvalResult, isText, trialId } from "./eval_request.ts";
import { checkExperiments, type Experiment } from "./experiment.ts";

/** Options of {@linkcode submitExperiments}. */
export interface SubmitExperimentsOptions<I, O, E> {
  /** What the evaluation is called. The same again is the same evaluation. */
  readonly evaluationId: string;
  /** What is sent, once for every experiment. */
  readonly dataset: Dataset<I, E>;
  /** Each with a name of its own. */
  readonly experiments: readonly Experiment[];
  /** Where results go. @default {where the loops say} */
  readonly replyTo?: ReplyAddress<EvalResult<O>>;
  /** Tells by its `trialId` whether a sample is left out, as one that is scored already. */
  readonly isFinished?: (trialId: string) => boolean;
  /** Ends it early; what was sent stays sent. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode submitDataset}. */
export interface SubmitDatasetOptions<I, O, E>
  extends Omit<SubmitExperimentsOptions<I, O, E>, "experiments"> {
  /** What the samples are tried with. @default {`{ name: "default" }`} */
  readonly experiment?: Experiment;
}

/** The experiment of an evaluation that compares nothing. */
export const DEFAULT_EXPERIMENT: Experiment = { name: "default" };

/** So many messages are on their way to the mailbox at a time. */
const AT_A_TIME = 16;

/**
 * Sends every sample of a dataset to be evaluated, and tells how many that were. Done again, it sends
 * nothing twice that still waits: the ids of the messages follow from evaluation, experiment and sample.
 */
export async function submitDataset<I, O, E>(
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  options: SubmitDatasetOptions<I, O, E>,
): Promise<number> {
  const { experiment = DEFAULT_EXPERIMENT, ...rest } = options;
  return await submitExperiments(requests, { ...rest, experiments: [experiment] });
}

/** Sends every sample once for each experiment, sample by sample; see {@linkcode submitDataset}. */
export async function submitExperiments<I, O, E>(
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  options: SubmitExperimentsOptions<I, O, E>,
): Promise<number> {
  const { dataset, replyTo, isFinished = () => false, signal } = options;
  const evaluationId = checkEvaluationId(options.evaluationId);
  const all = trials(evaluationId, dataset, checkExperiments(options.experiments));
  const to = replyTo === undefined ? {} : { replyTo };
  const send = (id: string, request: EvalRequest<I, E>) => requests.send(request, { id, ...to });
  return await sendTrials(all, send, isFinished, signal);
}

/** A sample in an experiment, with its `trialId`. */
export type Trial<I, E> = readonly [trialId: string, request: EvalRequest<I, E>];

/** Sends what is not finished, some at a time, and tells how many that were. */
export async function sendTrials<I, E>(
  trials: Iterable<Trial<I, E>>,
  send: (id: string, request: EvalRequest<I, E>) => Promise<unknown>,
  isFinished: (trialId: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<number> {
  // They share the one iterator, so that the mailbox gets the samples in order.
  const all = function* () {
    yield* trials;
  }();
  let count = 0;
  const sendSome = async () => {
    for (const [id, request] of all) {
      if (signal?.aborted) return;
      if (isFinished(id)) continue;
      await send(id, request);
      count++;
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, sendSome));
  return count;
}

/** Every sample in every experiment, with its `trialId`. */
export function* trials<I, E>(
  evaluationId: string,
  dataset: Dataset<I, E>,
  experiments: readonly Experiment[],
): Generator<Trial<I, E>> {
  for (const sample of dataset) {
    for (const experiment of experiments) {
      yield [trialId(evaluationId, experiment.name, sample.id), {
        evaluationId,
        sample,
        experiment,
      }];
    }
  }
}

/** Refuses what cannot name an evaluation. */
export function checkEvaluationId(id: unknown): string {
  if (isText(id)) return id;
  throw new TypeError(`Invalid evaluation id: expected a text, got ${show(id)}`);
}
