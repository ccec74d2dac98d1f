import { show } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import type { DrainReport } from "../lifecycle/drain_report.ts";
import { LoopGroup, type LoopGroupOptions } from "../group/loop_group.ts";
import type { LoopGroupRunOptions } from "../lifecycle/base_group.ts";
import { checkRunOptions } from "../lifecycle/runnable.ts";
import { ShutdownCoordinator } from "../lifecycle/shutdown_coordinator.ts";
import { libraryLog } from "../library_log.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { defaultRuntime } from "../runtime.ts";
import { CollectLoop } from "./collect.ts";
import { checkExperiments, Dataset, type Experiment } from "./dataset.ts";
import { EvalLoop, type EvalLoopOptions } from "./eval_loop.ts";
import { EvalReport } from "./eval_report.ts";
import { checkEvaluationId, type EvalRequest, type EvalResult } from "./eval_request.ts";
import { type Journal, MemoryJournal, ResultSet } from "./journal.ts";
import { type ProgressView, showProgress } from "./progress.ts";
import { DEFAULT_EXPERIMENT, SubmitLoop, trialsOf } from "./submit.ts";

/** Options of {@linkcode evaluate}. They include the options of its {@linkcode EvalLoop}. */
export interface EvaluateOptions<I, O, E> extends
  Omit<
    EvalLoopOptions<I, O, E>,
    "agent" | "evaluator" | "isFinished" | "name" | "stopOrder" | "results" | "shutdownTimeoutMs"
  > {
  /**
   * The id of the evaluation. An evaluation with the same id and journal continues where it stopped. Use a
   * new id after you change the samples or the agent.
   */
  readonly id: string;
  /** The samples. Each is evaluated once in every experiment. */
  readonly dataset: Dataset<I, E>;
  /** The experiments to compare. @default {`[{ name: "default" }]`} */
  readonly experiments?: readonly Experiment[];
  /** The agent to evaluate. Leave out agent and evaluator when other processes do the work. */
  readonly agent?: EvalLoopOptions<I, O, E>["agent"];
  /** Scores the outputs. */
  readonly evaluator?: EvalLoopOptions<I, O, E>["evaluator"];
  /** The mailbox for the results of this evaluation only. @default {a new `InMemoryMailbox`} */
  readonly results?: Mailbox<EvalResult<O>>;
  /** Stores results, so that an interrupted evaluation can continue. @default {a new `MemoryJournal`} */
  readonly journal?: Journal;
  /** The name of the experiment that the others are compared with. @default {the first one} */
  readonly baseline?: string;
  /** Shows the progress; `false` shows none. @default {`showProgress()`} */
  readonly progress?: ProgressView | false;
  /** The longest wait for the next result. @default {Infinity} */
  readonly idleMs?: number;
  /** The longest wait for all results. @default {Infinity} */
  readonly timeoutMs?: number;
  /** How long a sample stays hidden after its process died. @default {60_000} */
  readonly visibilityTimeoutMs?: number;
  /** Stops the evaluation on SIGTERM and SIGINT. @default {true} */
  readonly installSignals?: boolean;
  /** Stops the evaluation. */
  readonly signal?: AbortSignal;
  /** Options of the `LoopGroup` that runs the evaluation. Its watchdog is off by default. */
  readonly group?: Omit<LoopGroupOptions, "clock" | "log">;
}

/** The return value of {@linkcode evaluate}. */
export interface Evaluation<O> {
  /** The report on all results so far, also when the evaluation is not complete. */
  readonly report: EvalReport;
  /** True when every sample has a result. False after a stop or a timeout. */
  readonly complete: boolean;
  /** All results in the order of arrival. Results of earlier runs come first. */
  readonly results: readonly EvalResult<O>[];
  /** The report of the loops; undefined when all results were already there. */
  readonly drained?: DrainReport;
}

/**
 * Evaluates a dataset. When it is started again, samples that have a result in the journal are not evaluated
 * again. On a signal it finishes and stores the samples in flight and stops.
 *
 * ```text
 * dataset ─▶ SubmitLoop ─▶ requests ─▶ EvalLoop ─▶ results ─▶ CollectLoop ─▶ ResultSet ─▶ EvalReport
 *                 ▲ skips trials that have a result              journal ◀──────┘ ▲ loads the journal
 * ```
 *
 * @throws {TypeError | RangeError} when an option is invalid, before anything starts.
 *
 * @example
 * ```ts
 * import { AgentLoop, scriptedAdapter } from "@lastcall/lastcall/agents";
 * import { Dataset, evaluate, exactMatch } from "@lastcall/lastcall/evals";
 *
 * const { report } = await evaluate({
 *   id: "capitals",
 *   dataset: new Dataset([{ id: "fr", input: "The capital of France?", expected: "Paris" }]),
 *   experiments: [{ name: "short" }, { name: "long", variables: { style: "in a sentence" } }],
 *   agent: ({ variables }) =>
 *     new AgentLoop<string>({
 *       adapter: scriptedAdapter([variables === undefined ? "Paris" : "It is Paris."]),
 *       prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
 *     }),
 *   evaluator: exactMatch<string>,
 * });
 * console.log(String(report));
 * console.assert(report.comparisons[0]?.worse[0] === "fr");
 * ```
 */
export async function evaluate<I, O, E>(
  options: EvaluateOptions<I, O, E>,
): Promise<Evaluation<O>> {
  const { dataset, journal = new MemoryJournal(), experiments = [DEFAULT_EXPERIMENT] } = options;
  const { progress = showProgress(), baseline, log, clock } = options;
  const evaluationId = checkEvaluationId(options.id);
  const requests: Mailbox<EvalRequest<I, E>, EvalResult<O>> = options.requests ??
    new InMemoryMailbox("requests");
  const results: Mailbox<EvalResult<O>> = options.results ?? new InMemoryMailbox("results");
  if (!(dataset instanceof Dataset)) {
    throw new TypeError(`Invalid dataset: expected a Dataset, got ${show(dataset)}`);
  }
  if (requests.name === results.name) {
    throw new TypeError(
      `Invalid results: requests and results are both named "${results.name}" and may be the same ` +
        "queue. Give them different names.",
    );
  }
  checkExperiments(experiments);
  const trials = () => trialsOf(evaluationId, dataset, experiments);
  const trialIds = new Set(Array.from(trials(), ({ id }) => id));
  const reportOn = (results: readonly EvalResult<O>[]) =>
    new EvalReport({
      evaluationId,
      results,
      samples: dataset,
      experiments,
      ...(baseline === undefined ? {} : { baseline }),
    });
  reportOn([]); // throws when the baseline is invalid
  checkRunOptions(runOptions(options));

  const view = progress === false ? undefined : progress;
  const resultSet = new ResultSet<O>({
    evaluationId,
    total: trialIds.size,
    isWanted: (id) => trialIds.has(id),
    journal,
    progress: view,
  });
  const shared = { log, ...(clock === undefined ? {} : { clock }) };
  const { idleMs = Infinity, timeoutMs = Infinity } = options;
  const submitLoop = new SubmitLoop(requests, {
    ...shared,
    stopOrder: -1, // stops first
    trials,
    isFinished: (id) => resultSet.has(id),
    replyTo: results,
  });
  const collectLoop = new CollectLoop(results, resultSet, {
    ...shared,
    idleMs,
    timeoutMs,
    stopOrder: 1, // stops last, to receive the results of the loops that stopped before
    onEnd: () => void group.shutdown(),
  });
  const evalLoops = createEvalLoops(options, requests, results, resultSet);
  const group = new LoopGroup([submitLoop, ...evalLoops, collectLoop], {
    watchdogThresholdMs: false,
    ...options.group,
    ...(clock === undefined ? {} : { clock }),
    ...(log === undefined ? {} : { log }),
  });

  let drained: DrainReport | undefined;
  // Handle signals from here on, also while the journal loads.
  const releaseSignals = holdSignals(options);
  try {
    await resultSet.load();
    await collectLoop.receiveExisting();
    if (!resultSet.complete) drained = await group.run(runOptions(options));
  } finally {
    releaseSignals();
    view?.end();
  }
  return {
    report: reportOn(resultSet.results),
    complete: resultSet.complete,
    results: resultSet.results,
    ...(drained === undefined ? {} : { drained }),
  };
}

function holdSignals<I, O, E>(
  { installSignals = true, group = {}, clock = systemClock, log = libraryLog }: EvaluateOptions<
    I,
    O,
    E
  >,
): () => void {
  if (!installSignals) return () => {};
  const { runtime = defaultRuntime() } = group;
  return ShutdownCoordinator.hold({ runtime, clock, log }).release;
}

/** Returns no loop when other processes do the work. */
function createEvalLoops<I, O, E>(
  options: EvaluateOptions<I, O, E>,
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  results: Mailbox<EvalResult<O>>,
  resultSet: ResultSet<O>,
): readonly EvalLoop<I, O, E>[] {
  const { agent, evaluator, ...rest } = options;
  if (agent === undefined && evaluator === undefined) {
    if (options.requests !== undefined && options.results !== undefined) return [];
    throw new TypeError(
      "Invalid options: without agent and evaluator, other processes do the work. Pass `requests` " +
        "and `results` mailboxes that they can reach, or an agent and an evaluator.",
    );
  }
  return [
    new EvalLoop({
      ...rest,
      name: "evaluation",
      requests,
      results,
      isFinished: (id) => resultSet.has(id),
      // When only one of the two is missing, the constructor throws.
      agent: agent!,
      evaluator: evaluator!,
    }),
  ];
}

function runOptions<I, O, E>(
  { visibilityTimeoutMs = 60_000, installSignals = true, signal }: EvaluateOptions<I, O, E>,
): LoopGroupRunOptions {
  return { visibilityTimeoutMs, installSignals, ...(signal === undefined ? {} : { signal }) };
}
