import { type Clock, systemClock } from "../clock.ts";
import { knownRuntime } from "../runtime.ts";

/** The progress of an evaluation. */
export interface EvalProgress {
  /** The id of the evaluation. */
  readonly evaluationId: string;
  /** The number of results of the complete evaluation: samples times experiments. */
  readonly total: number;
  /** The number of results so far, including failed ones. */
  readonly finished: number;
  /** The number of results that passed. */
  readonly passed: number;
  /** The number of results with an error. */
  readonly errors: number;
}

/** Shows the progress of an evaluation. */
export interface ProgressView {
  /** Called for every batch of results. It must return quickly. */
  update(progress: EvalProgress): void;
  /** Called once, after the last update. */
  end(): void;
}

/** The output of {@linkcode showProgress}, such as `process.stderr`. */
export interface ProgressStream {
  /** Writes the text without adding a line break. */
  write(text: string): unknown;
  /** True for a terminal, where a line can be overwritten. */
  readonly isTTY?: boolean | undefined;
}

/** The shortest time between two drawings on a terminal. */
const REDRAW_MS = 100;
/** Without a terminal, there is a new line for each step of percent and after this time. */
const STEP_PERCENT = 10;
const STEP_MS = 10_000;

/** Returns the runtime's terminal, or the console when the runtime is unknown. */
function defaultStream(): ProgressStream {
  const terminal = knownRuntime()?.terminal;
  if (terminal === undefined) return { write: (text) => console.error(text.trimEnd()) };
  return { write: (text) => terminal.write(text), isTTY: terminal.interactive };
}

/**
 * Returns a view that writes progress to a stream, by default to standard error. On a terminal it updates one
 * line. Elsewhere it writes a new line every 10 percent and every 10 seconds.
 *
 * @example
 * ```ts
 * import { showProgress } from "@lastcall/lastcall/evals";
 *
 * const progress = showProgress(); // for `evaluate({ …, progress })`, which calls it
 * progress.update({ evaluationId: "capitals", total: 10, finished: 5, passed: 4, errors: 0 });
 * progress.end();
 * ```
 */
export function showProgress(
  stream: ProgressStream = defaultStream(),
  options: { readonly clock?: Clock } = {},
): ProgressView {
  const { clock = systemClock } = options;
  const live = stream.isTTY === true;
  let first: { readonly at: number; readonly finished: number } | undefined;
  let shown: EvalProgress | undefined;
  let [shownAt, pending]: [number, EvalProgress | undefined] = [-Infinity, undefined];
  const show = (progress: EvalProgress, now: number) => {
    const line = lineOf(progress, progress.finished - first!.finished, now - first!.at);
    stream.write(live ? `\r${line}\x1b[K` : `${line}\n`);
    [shown, shownAt, pending] = [progress, now, undefined];
  };
  return {
    update(progress) {
      const now = clock.monotonic();
      first ??= { at: now, finished: progress.finished };
      const isStep = stepOf(progress) !== (shown && stepOf(shown));
      const due = live
        ? now - shownAt >= REDRAW_MS || progress.finished === progress.total
        : isStep || now - shownAt >= STEP_MS;
      if (due) show(progress, now);
      else pending = progress;
    },
    end() {
      if (pending !== undefined) show(pending, clock.monotonic());
      if (live && shown !== undefined) stream.write("\n");
    },
  };
}

function stepOf({ finished, total }: EvalProgress): number {
  return Math.floor(percent(finished, total) / STEP_PERCENT);
}

function lineOf(progress: EvalProgress, done: number, elapsedMs: number): string {
  const { evaluationId, finished, total, passed, errors } = progress;
  const left = total - finished;
  const leftMs = done > 0 ? elapsedMs / done * left : 0;
  return [
    `${evaluationId}: ${finished}/${total} samples`,
    ...(finished > 0 ? [`${percent(passed, finished).toFixed(1)} % passed`] : []),
    ...(errors > 0 ? [`${errors} errors`] : []),
    ...(left > 0 && leftMs > 0 ? [`about ${duration(leftMs)} left`] : []),
  ].join(" · ");
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 100 : part / whole * 100;
}

function duration(ms: number): string {
  const seconds = Math.ceil(ms / 1_000);
  return seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
}
