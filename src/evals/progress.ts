import { type Clock, systemClock } from "../clock.ts";
import { knownRuntime } from "../runtime.ts";

/** How far an evaluation is. */
export interface EvalProgress {
  /** The evaluation that is told of. */
  readonly evaluationId: string;
  /** How many results there will be: samples times experiments. */
  readonly total: number;
  /** Of those, how many have a result; failed ones are finished too. */
  readonly finished: number;
  /** How many of those have passed. */
  readonly passed: number;
  /** How many of those that did not pass have an error. */
  readonly errors: number;
}

/** Is told how far an evaluation is. */
export interface ProgressView {
  /** Called with every result; it should return soon. */
  update(progress: EvalProgress): void;
  /** Called once, when nothing more will come. */
  end(): void;
}

/** Where progress is written; `process.stderr` fits. */
export interface ProgressStream {
  /** Writes text as it is, without a line end of its own. */
  write(text: string): unknown;
  /** Whether a line can be written over. */
  readonly isTTY?: boolean | undefined;
}

/** A person sees no more than that. */
const REDRAW_MS = 100;
/** In a file, a line for every so many percent, or after so long. */
const STEP_PERCENT = 10;
const STEP_MS = 10_000;

/** What a person reads where the program runs; the console where no runtime is known. */
function defaultStream(): ProgressStream {
  const terminal = knownRuntime()?.terminal;
  if (terminal === undefined) return { write: (text) => console.error(text.trimEnd()) };
  return { write: (text) => terminal.write(text), isTTY: terminal.interactive };
}

/**
 * Shows progress: a line that changes in its place where a person looks at a terminal, a new line now and
 * then otherwise.
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
