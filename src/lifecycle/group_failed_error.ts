import { errorText } from "../errors.ts";
import type { DrainReport } from "./drain_report.ts";

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
