/**
 * Evaluates agents on datasets: samples, evaluators, experiments and reports. An interrupted evaluation
 * continues where it stopped, and several processes can share the work.
 *
 * @module
 */

import "../../mod.ts"; // provides the runtime, for programs that import no other entry

export {
  Dataset,
  DatasetError,
  type DatasetProblem,
  type Experiment,
  type Sample,
} from "./dataset.ts";
export {
  adapt,
  type Adaptation,
  allOf,
  anyOf,
  contains,
  type Evaluator,
  type EvaluatorContext,
  exactMatch,
  passOrFail,
  type Score,
  sessionEvaluator,
  withinTokens,
  withinTurns,
} from "./evaluators.ts";
export { llmJudge, type LlmJudgeOptions } from "./llm_judge.ts";

export { type EvalRequest, type EvalResult, trialId } from "./eval_request.ts";
export { EvalLoop, type EvalLoopOptions, type EvalSubject } from "./eval_loop.ts";

export { evaluate, type EvaluateOptions, type Evaluation } from "./evaluate.ts";
export {
  submitDataset,
  type SubmitDatasetOptions,
  submitExperiments,
  type SubmitExperimentsOptions,
} from "./submit.ts";
export { type CollectedResults, type CollectOptions, collectResults } from "./collect.ts";
export { FileJournal, type Journal, MemoryJournal } from "./journal.ts";
export {
  type EvalProgress,
  type ProgressStream,
  type ProgressView,
  showProgress,
} from "./progress.ts";
export { EvalReport, type EvalReportInit } from "./eval_report.ts";
export type { Comparison, ExperimentSummary, Failure, Latencies } from "./summary.ts";
