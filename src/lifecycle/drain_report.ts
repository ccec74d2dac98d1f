import { errorText } from "../errors.ts";
import { exitCodeOf, type SignalName } from "../runtime.ts";
import type { LoopState, PhaseEvent, Problem, StopReason } from "./group_events.ts";
import { type InFlight, isBalanced, type MessageCounts, sumCounts } from "./runnable.ts";

/**
 * The outcomes of a run and their exit codes, worst first. When several apply, the first is reported. The
 * signal that forces a stop decides the exit code: 128 and its number.
 */
export const EXIT_CODES: Readonly<Record<Outcome, number>> = {
  forced: 128,
  failed: 1,
  timed_out: 124,
  drained: 0,
};

/** How a run ended. */
export type Outcome = "forced" | "failed" | "timed_out" | "drained";

/** Returns the worst of several exit codes: forced, then failed, then timed out. */
export function worstExitCode(codes: readonly number[]): number {
  const { forced, timed_out, drained } = EXIT_CODES;
  const severity = (code: number) =>
    code > forced ? 3 : code === timed_out ? 1 : code === drained ? 0 : 2;
  return codes.reduce(
    (worst, code) => severity(code) > severity(worst) ? code : worst,
    drained as number,
  );
}

/** What one loop did in a run. */
export interface LoopReport {
  /** The name of the loop. */
  readonly name: string;
  /** `ended`, `failed` or `hung`; `waiting` when the stop began before the loop. */
  readonly state: LoopState;
  /** How long its stop took, in milliseconds; 0 when it had ended before. */
  readonly stopMs: number;
  /** How often the loop was restarted after a failure. */
  readonly restarts: number;
  /** The error that it failed with. */
  readonly error?: unknown;
  /** The work still in flight at the deadline. */
  readonly inFlight: readonly InFlight[];
  /** The counts of its messages by outcome. */
  readonly counts: MessageCounts;
}

/** The data of a {@linkcode DrainReport}. */
export interface DrainReportInit {
  /** Why the run ended. */
  readonly reason: StopReason;
  /** Milliseconds from the start of the run to its end. */
  readonly runMs: number;
  /** Milliseconds from the beginning of the stop to its end. */
  readonly stopMs: number;
  /** How long the stop was allowed to take, in milliseconds. */
  readonly timeoutMs: number;
  /** The phases of the run, in order. */
  readonly phases: readonly PhaseEvent[];
  /** One report per loop, in the order of the group. */
  readonly loops: readonly LoopReport[];
  /** Resources and shutdown callbacks that still ran at the deadline, and what ended loops left unfinished. */
  readonly unfinished: readonly string[];
  /** Errors that did not end the run. */
  readonly problems: readonly Problem[];
  /** The signal that forced the stop. */
  readonly forcedBy?: SignalName | undefined;
}

/** The report of a run: how it ended, what each loop did, and what was left unfinished. */
export class DrainReport implements DrainReportInit {
  /** Why the run ended. */
  readonly reason: StopReason;
  /** Milliseconds from the start of the run to its end. */
  readonly runMs: number;
  /** Milliseconds from the beginning of the stop to its end. */
  readonly stopMs: number;
  /** How long the stop was allowed to take, in milliseconds. */
  readonly timeoutMs: number;
  /** The phases of the run, in order. */
  readonly phases: readonly PhaseEvent[];
  /** One report per loop, in the order of the group. */
  readonly loops: readonly LoopReport[];
  /** Resources and shutdown callbacks that still ran at the deadline, and what ended loops left unfinished. */
  readonly unfinished: readonly string[];
  /** Errors that did not end the run. */
  readonly problems: readonly Problem[];
  /** The signal that forced the stop. */
  readonly forcedBy: SignalName | undefined;

  /** Creates a report. A group does this at the end of a run; other code only in tests. */
  constructor(init: DrainReportInit) {
    this.reason = init.reason;
    this.runMs = init.runMs;
    this.stopMs = init.stopMs;
    this.timeoutMs = init.timeoutMs;
    this.phases = init.phases;
    this.loops = init.loops;
    this.unfinished = init.unfinished;
    this.problems = init.problems;
    this.forcedBy = init.forcedBy;
  }

  /** The loops that failed and were not restarted. */
  get failed(): readonly LoopReport[] {
    return this.loops.filter(({ state }) => state === "failed");
  }

  /** The loops that still ran at the deadline. */
  get hung(): readonly LoopReport[] {
    return this.loops.filter(({ state }) => state === "hung");
  }

  /** How the run ended. */
  get outcome(): Outcome {
    if (this.forcedBy !== undefined) return "forced";
    if (this.failed.length > 0) return "failed";
    return this.hung.length + this.unfinished.length > 0 ? "timed_out" : "drained";
  }

  /** 0 drained, 1 a loop failed, 124 the deadline passed with work left, 128 + n forced by signal n. */
  get exitCode(): number {
    if (this.forcedBy !== undefined) return exitCodeOf(this.forcedBy);
    return EXIT_CODES[this.outcome];
  }

  /** The counts of the messages of all loops by outcome. */
  get counts(): MessageCounts {
    return sumCounts(this.loops.map(({ counts }) => counts));
  }

  /** True when every received message is accounted for. */
  get balanced(): boolean {
    return isBalanced(this.counts);
  }

  /** Returns the report as plain data, with errors as text. */
  toJSON(): Record<string, unknown> {
    return {
      ...this as DrainReportInit,
      outcome: this.outcome,
      exitCode: this.exitCode,
      counts: this.counts,
      loops: this.loops.map(withErrorText),
      problems: this.problems.map(withErrorText),
    };
  }

  /** Returns the report as a few lines of text. */
  toString(): string {
    const lines = [
      `${this.outcome.replace("_", " ")} in ${seconds(this.stopMs)} of ` +
      `${seconds(this.timeoutMs)} (${this.reason.text}), exit code ${this.exitCode}`,
      ...this.loops.map(loopLine),
      ...this.unfinished.map((name) => `  not ended: ${name}`),
      ...this.problems.map(({ what, error }) => `  problem: ${what}: ${errorText(error)}`),
    ];
    return lines.join("\n");
  }
}

/** One or more loops of a group failed. `errors` contains their errors. */
export class GroupFailedError extends AggregateError {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "GroupFailedError";
  /** The report of the run, including the loops that did not fail. */
  readonly report: DrainReport;

  /** Creates the error from the failed loops of the report. */
  constructor(report: DrainReport) {
    const failed = report.failed;
    const names = failed.map(({ name, error }) => `"${name}" (${errorText(error)})`);
    super(failed.map(({ error }) => error), `Loop ${names.join(", ")} failed`, {
      cause: failed[0]?.error,
    });
    this.report = report;
  }
}

function loopLine(loop: LoopReport): string {
  const parts = [`  ${loop.name}: ${loop.state}`];
  if (loop.stopMs > 0) parts.push(`in ${seconds(loop.stopMs)}`);
  if (loop.restarts > 0) parts.push(`after ${loop.restarts} restarts`);
  if (loop.error !== undefined) parts.push(`with ${errorText(loop.error)}`);
  const work = loop.inFlight.map(({ id, ageMs }) => `${id} (${seconds(ageMs)})`);
  if (work.length > 0) parts.push(`on ${work.join(", ")}`);
  const { received, ...settled } = loop.counts;
  if (received === 0) return parts.join(" ");
  const counts = Object.entries(settled).filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${words(name)}`);
  const what = counts.length === 0 ? "" : `: ${counts.join(", ")}`;
  return `${parts.join(" ")}; received ${received}${what}`;
}

function withErrorText<T extends { readonly error?: unknown }>(entry: T): unknown {
  return entry.error === undefined ? entry : { ...entry, error: errorText(entry.error) };
}

function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
