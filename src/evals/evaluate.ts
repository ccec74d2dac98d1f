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
import { Collector } from "./_collector.ts";
import { Dataset } from "./dataset.ts";
import { EvalLoop } from "./eval_loop.ts";
import type { EvalLoopOptions } from "./eval_options.ts";
import { EvalReport } from "./eval_report.ts";
import type { EvalRequest, EvalResult } from "./eval_request.ts";
import { checkExperiments, type Experiment } from "./experiment.ts";
import { type Journal, MemoryJournal } from "./journal.ts";
import { Ledger } from "./_ledger.ts";
import { type ProgressView, showProgress } from "./progress.ts";
import { checkEvaluationId, DEFAULT_EXPERIMENT, trials } from "./submit.ts";
import { Submission } from "./_submission.ts";

/** Options of {@linkcode evaluate}; those of the loop that works are among them. */
export interface EvaluateOptions<I, O, E> extends
  Omit<
    EvalLoopOptions<I, O, E>,
    "agent" | "evaluator" | "isFinished" | "name" | "priority" | "results" | "shutdownTimeoutMs"
  > {
  /**
   * What the evaluation is called. Started again with the same id, it goes on where it stopped: after a
   * change of the samples or of the agent give it another one.
   */
  readonly id: string;
  /** The samples, each tried once for every experiment. */
  readonly dataset: Dataset<I, E>;
  /** What the samples are tried with. @default {one that is called `default`} */
  readonly experiments?: readonly Experiment[];
  /** What is evaluated; left out, with the evaluator, where other processes do the work. */
  readonly agent?: EvalLoopOptions<I, O, E>["agent"];
  /** Scores what comes out. */
  readonly evaluator?: EvalLoopOptions<I, O, E>["evaluator"];
  /** Where results go; of this evaluation alone. @default {a mailbox in memory} */
  readonly results?: Mailbox<EvalResult<O>>;
  /** Where finished results are kept. @default {in memory: what is interrupted begins anew} */
  readonly journal?: Journal;
  /** The experiment that the others are compared with. @default {the first one} */
  readonly baseline?: string;
  /** Shows how far it is; `false` shows nothing. @default {lines on the console} */
  readonly progress?: ProgressView | false;
  /** How long to wait for the next result. @default {Infinity} */
  readonly idleMs?: number;
  /** How long to wait for all of them. @default {Infinity} */
  readonly timeoutMs?: number;
  /** How long a sample is invisible to others after its process died. @default {60_000} */
  readonly visibilityTimeoutMs?: number;
  /** Stop on SIGTERM and SIGINT. @default {true} */
  readonly installSignals?: boolean;
  /** Asks for a stop when aborted. */
  readonly signal?: AbortSignal;
  /** Options of the group that all this runs in; it has no watchdog unless asked. */
  readonly group?: Omit<LoopGroupOptions, "clock" | "log">;
}

/** What {@linkcode evaluate} gives. */
export interface Evaluation<O> {
  /** Of what is finished, also when it is not complete. */
  readonly report: EvalReport;
  /** False when it was stopped, or the time was up, before every sample had its result. */
  readonly complete: boolean;
  /** In the order they came; those of an earlier start come first. */
  readonly results: readonly EvalResult<O>[];
  /** How its loops ended; undefined where there was nothing left to do. */
  readonly drained?: DrainReport;
}

/**
 * Evaluates a dataset, and goes on where it stopped when it is started again: samples that have a result
 * in the journal are not tried again. A signal stops it well: what is in flight is finished and kept.
 *
 * ```text
 * journal ─▶ ledger ◀── results ◀── EvalLoop ◀── requests ◀── what is not in the ledger
 * ```
 *
 * @example
 * ```ts
 * import { AgentLoop } from "@lastcall/lastcall";
 * import { scriptedAdapter } from "@lastcall/lastcall/agents";
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
  if (!(dataset instanceof Dataset)) throw new TypeError("Invalid dataset: expected a Dataset");
  if (requests.name === results.name) {
    throw new TypeError(
      `Invalid results: requests and results are both called "${results.name}", and may be the ` +
        "same queue: call them differently",
    );
  }
  const wanted = new Set(
    [...trials(evaluationId, dataset, checkExperiments(experiments))].map(idOf),
  );
  const report = (results: readonly EvalResult<O>[] = []) =>
    new EvalReport({
      evaluationId,
      results,
      samples: dataset,
      experiments,
      ...(baseline === undefined ? {} : { baseline }),
    });
  report(); // refuses a bad baseline now
  checkRunOptions(runOptions(options));

  const view = progress === false ? undefined : progress;
  const isWanted = (id: string) => wanted.has(id);
  const total = wanted.size;
  const ledger = new Ledger<O>({ evaluationId, total, isWanted, journal, progress: view });
  const shared = { log, ...(clock === undefined ? {} : { clock }) };
  const { idleMs = Infinity, timeoutMs = Infinity } = options;
  const collector = new Collector(results, ledger, {
    ...shared,
    idleMs,
    timeoutMs,
    priority: 1, // after those who make results
    onEnd: () => void group.shutdown(),
  });
  const submission = new Submission(requests, {
    ...shared,
    priority: -1,
    trials: () => trials(evaluationId, dataset, experiments),
    isFinished: (id) => ledger.has(id),
    replyTo: results,
  });
  const work = workOf(options, requests, results, ledger);
  const group = new LoopGroup([submission, ...work, collector], {
    watchdogThresholdMs: null,
    ...options.group,
    ...(clock === undefined ? {} : { clock }),
    ...(log === undefined ? {} : { log }),
  });

  let drained: DrainReport | undefined;
  // A signal counts from here on, also while the journal is being read.
  const letGo = holdSignals(options);
  try {
    await ledger.open();
    await collector.sweep();
    if (!ledger.complete) drained = await group.run(runOptions(options));
  } finally {
    letGo();
    view?.end();
  }
  return {
    report: report(ledger.results),
    complete: ledger.complete,
    results: ledger.results,
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

function workOf<I, O, E>(
  options: EvaluateOptions<I, O, E>,
  requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
  results: Mailbox<EvalResult<O>>,
  ledger: Ledger<O>,
): readonly EvalLoop<I, O, E>[] {
  const { agent, evaluator, ...rest } = options;
  if (agent === undefined && evaluator === undefined) {
    if (options.requests !== undefined && options.results !== undefined) return [];
    throw new TypeError(
      "Invalid options: without an agent and an evaluator other processes do the work, and need " +
        "`requests` and `results` that they can reach",
    );
  }
  const isFinished = (id: string) => ledger.has(id);
  const name = "evaluation";
  // The loop refuses what is missing.
  return [
    new EvalLoop({
      ...rest,
      name,
      requests,
      results,
      isFinished,
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

function idOf([id]: readonly [trialId: string, request: unknown]): string {
  return id;
}
