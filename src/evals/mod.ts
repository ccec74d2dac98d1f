/**
 * Evaluations of agents: datasets, evaluators, experiments and reports, on the loops and mailboxes of the
 * package. An evaluation that is interrupted goes on where it stopped; many processes can share one.
 *
 * @module
 */

export { Dataset, DatasetError, type DatasetProblem, type Sample } from "./dataset.ts";
export type { Experiment } from "./experiment.ts";
export { passOrFail, type Score } from "./score.ts";
export type { Evaluator, EvaluatorContext } from "./evaluator.ts";
export { contains, exactMatch } from "./evaluators/match.ts";
export { adapt, type Adaptation, allOf, anyOf } from "./evaluators/combine.ts";
export { sessionEvaluator, withinTokens, withinTurns } from "./evaluators/session.ts";
export { llmJudge, type LlmJudgeOptions } from "./evaluators/llm_judge.ts";

export { type EvalRequest, type EvalResult, trialId } from "./eval_request.ts";
export { EvalLoop } from "./eval_loop.ts";
export type { EvalLoopOptions, EvalSubject } from "./eval_options.ts";

export { evaluate, type EvaluateOptions, type Evaluation } from "./evaluate.ts";
export {
  submitDataset,
  type SubmitDatasetOptions,
  submitExperiments,
  type SubmitExperimentsOptions,
} from "./submit.ts";
export { type CollectedResults, type CollectOptions, collectResults } from "./collect.ts";
export { type Journal, MemoryJournal } from "./journal.ts";
export { FileJournal } from "./file_journal.ts";
export {
  type EvalProgress,
  type ProgressStream,
  type ProgressView,
  showProgress,
} from "./progress.ts";
export { EvalReport, type EvalReportInit } from "./eval_report.ts";
export type { Comparison, ExperimentSummary, Failure, Latencies } from "./summary.ts";
