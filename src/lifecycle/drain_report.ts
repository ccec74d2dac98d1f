import { errorText } from "../errors.ts";
import { exitCodeOf, type SignalName } from "../runtime.ts";
import type { LoopState, PhaseEvent, Problem, StopReason } from "./group_events.ts";
import { type Figures, type InFlight, isBalanced, sumFigures } from "./runnable.ts";

/** How a run ended. When several apply, the first of this order is told. */
export type Outcome = "forced" | "failed" | "timed_out" | "drained";

/** What one loop did in a run. */
export interface LoopReport {
  /** That of the loop. */
  readonly name: string;
  /** `ended`, `failed` or `hung`; `waiting` when the stop came before it began. */
  readonly state: LoopState;
  /** How long it took to stop once it was told; 0 when it had ended before. */
  readonly stopMs: number;
  /** How often it was run again after a failure. */
  readonly restarts: number;
  /** What it failed with in the end. */
  readonly error?: unknown;
  /** What it was still working on at the deadline. */
  readonly inFlight: readonly InFlight[];
  /** What became of its messages. */
  readonly figures: Figures;
}

/** What a {@linkcode DrainReport} is made from. */
export interface DrainReportInit {
  /** Why the run ended. */
  readonly reason: StopReason;
  /** From the start of the run to its end. */
  readonly runMs: number;
  /** From the beginning of the stop to its end. */
  readonly stopMs: number;
  /** How long the stop was allowed to take. */
  readonly timeoutMs: number;
  /** Every phase the run went through. */
  readonly phases: readonly PhaseEvent[];
  /** One for each loop, in the order of the group. */
  readonly loops: readonly LoopReport[];
  /** Support and shutdown callbacks that had not ended at the deadline, and what ended loops left undone. */
  readonly unfinished: readonly string[];
  /** What went wrong and was contained. */
  readonly problems: readonly Problem[];
  /** The signal that forced the stop. */
  readonly forcedBy?: SignalName | undefined;
}

const EXIT_CODES: Readonly<Record<Outcome, number>> = {
  forced: 1, // without a signal nobody forces
  failed: 1,
  timed_out: 124,
  drained: 0,
};

/** The account of a run: how it ended, what each loop did, and what was left. */
export class DrainReport implements DrainReportInit {
  /** Why the run ended. */
  readonly reason: StopReason;
  /** From the start of the run to its end. */
  readonly runMs: number;
  /** From the beginning of the stop to its end. */
  readonly stopMs: number;
  /** How long the stop was allowed to take. */
  readonly timeoutMs: number;
  /** Every phase the run went through. */
  readonly phases: readonly PhaseEvent[];
  /** One for each loop, in the order of the group. */
  readonly loops: readonly LoopReport[];
  /** Support and shutdown callbacks that had not ended at the deadline, and what ended loops left undone. */
  readonly unfinished: readonly string[];
  /** What went wrong and was contained. */
  readonly problems: readonly Problem[];
  /** The signal that forced the stop. */
  readonly forcedBy: SignalName | undefined;

  /** Made by a group at the end of a run; by hand only in tests. */
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

  /** The loops that failed for good. */
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

  /** What became of the messages of all loops. */
  get figures(): Figures {
    return sumFigures(this.loops.map(({ figures }) => figures));
  }

  /** True when every received message is accounted for. */
  get balanced(): boolean {
    return isBalanced(this.figures);
  }

  /** Plain data, with errors as text. */
  toJSON(): Record<string, unknown> {
    return {
      ...this as DrainReportInit,
      outcome: this.outcome,
      exitCode: this.exitCode,
      figures: this.figures,
      loops: this.loops.map(withErrorText),
      problems: this.problems.map(withErrorText),
    };
  }

  /** A few lines for the terminal. */
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

/** One or more loops of a group failed. `errors` holds what each failed with. */
export class GroupFailedError extends AggregateError {
  /** What a log or a `catch` tells it by. */
  override readonly name = "GroupFailedError";
  /** The account of the run, the loops that did not fail included. */
  readonly report: DrainReport;

  /** Takes what the loops failed with out of the report. */
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
  const { received, ...settled } = loop.figures;
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
