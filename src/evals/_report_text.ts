import type { Comparison, ExperimentSummary, Failure } from "./summary.ts";

/** The data that the text formats show. */
export interface ReportParts {
  readonly evaluationId: string;
  readonly experiments: readonly ExperimentSummary[];
  readonly comparisons: readonly Comparison[];
}

/** Longer lists are cut; the JSON has all entries. */
const MAX_LIST_ENTRIES = 10;

/** Formats the report for a terminal. */
export function asText(report: ReportParts): string {
  return [
    headline(report),
    table(rowsOf(report)),
    ...report.comparisons.map((comparison) =>
      [`${against(comparison)}:`, ...changes(comparison).map((line) => `  ${line}`)].join("\n")
    ),
    ...report.experiments.filter(({ failures }) => failures.length > 0).map((experiment) =>
      [`Failures of ${experiment.name}:`, ...failureLines(experiment).map((it) => `  ${it}`)]
        .join("\n")
    ),
  ].join("\n\n");
}

/** Formats the report as Markdown. */
export function asMarkdown(report: ReportParts): string {
  const escaped = rowsOf(report).map((row) => row.map(escape));
  const [head = [], ...body] = escaped;
  const rows = [head, head.map((_, i) => i === 0 ? "---" : "--:"), ...body];
  return [
    `## ${escape(headline(report))}`,
    rows.map((row) => `| ${row.join(" | ")} |`).join("\n"),
    ...report.comparisons.map((comparison) =>
      [`### ${escape(against(comparison))}`, list(changes(comparison))].join("\n\n")
    ),
    ...report.experiments.filter(({ failures }) => failures.length > 0).map((experiment) =>
      [`### Failures of ${escape(experiment.name)}`, list(failureLines(experiment))].join("\n\n")
    ),
  ].join("\n\n") + "\n";
}

function headline({ evaluationId, experiments }: ReportParts): string {
  const missing = experiments.reduce((sum, it) => sum + it.samples - it.finished, 0);
  const parts = [
    count(experiments[0]?.samples ?? 0, "sample"),
    count(experiments.length, "experiment"),
    ...(missing > 0 ? [`${missing} not finished`] : []),
  ];
  return `Evaluation ${evaluationId}: ${parts.join(", ")}`;
}

function rowsOf({ experiments }: ReportParts): readonly (readonly string[])[] {
  const timed = experiments.some(({ latency }) => latency !== undefined);
  const head = ["experiment", "finished", "passed", "pass rate", "mean", "errors", "tokens"];
  const rows = experiments.map((it) => {
    const { usage: { inputTokens, outputTokens }, latency } = it;
    const scored = it.finished > 0;
    return [
      it.name,
      `${it.finished}/${it.samples}`,
      String(it.passed),
      scored ? `${(it.passRate * 100).toFixed(1)} %` : "–",
      scored ? it.meanScore.toFixed(3) : "–",
      String(it.errors),
      `${inputTokens} + ${outputTokens}`,
      ...(timed ? [latency?.meanMs, latency?.p50Ms, latency?.p95Ms].map(milliseconds) : []),
    ];
  });
  return [[...head, ...(timed ? ["mean time", "p50", "p95"] : [])], ...rows];
}

function against({ experiment, baseline }: Comparison): string {
  return `${experiment} against ${baseline}`;
}

function changes(comparison: Comparison): readonly string[] {
  const { compared, passRateDifference, meanScoreDifference, better, worse } = comparison;
  return [
    `pass rate ${signed(passRateDifference * 100, 1)} points, ` +
    `mean ${signed(meanScoreDifference, 3)}, by ${count(compared, "sample")}`,
    `better: ${some(better)}`,
    `worse: ${some(worse)}`,
  ];
}

function failureLines({ failures }: ExperimentSummary): readonly string[] {
  const lines = failures.slice(0, MAX_LIST_ENTRIES).map(failureLine);
  const hidden = failures.length - lines.length;
  return hidden > 0 ? [...lines, `and ${hidden} more`] : lines;
}

function failureLine({ sampleId, value, reason }: Failure): string {
  const why = reason ?? `scored ${value.toFixed(3)}`;
  return `${sampleId}: ${why.replace(/\s+/g, " ")}`;
}

/** Aligns the first column to the left and the numbers to the right. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows.map((row) =>
    row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join("  ")
  ).join("\n");
}

function list(lines: readonly string[]): string {
  return lines.map((line) => `- ${escape(line)}`).join("\n");
}

function some(ids: readonly string[]): string {
  if (ids.length === 0) return "none";
  const shown = ids.slice(0, MAX_LIST_ENTRIES).join(", ");
  return ids.length <= MAX_LIST_ENTRIES
    ? shown
    : `${shown} and ${ids.length - MAX_LIST_ENTRIES} more`;
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? "–" : `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}

function signed(value: number, digits: number): string {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
}

function count(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? "" : "s"}`;
}

function escape(text: string): string {
  return text.replace(/[\\|<>*_`[\]]/g, "\\$&");
}
