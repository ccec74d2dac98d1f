// What a part of the benchmarks hands back, and how it is printed.

/** One promise of the design, and what came of it. */
export interface Goal {
  /** What was promised, as in `node: at most 1.3 × the bare handler`. */
  readonly goal: string;
  readonly measured: string;
  readonly met: boolean;
}

/** One part: a table and its goals. */
export interface Part {
  readonly title: string;
  /** The first row holds the headings. */
  readonly table: readonly (readonly string[])[];
  readonly goals: readonly Goal[];
}

/** The middle value; with an even number of values the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which the share `q` of the values lies, interpolated. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const below = sorted[Math.floor(at)];
  const above = sorted[Math.ceil(at)];
  if (below === undefined || above === undefined) throw new Error("There are no values to rank");
  return below + (above - below) * (at % 1);
}

/** Milliseconds with as many digits as they deserve. */
export function ms(value: number): string {
  return value < 100 ? value.toFixed(2) : value.toFixed(0);
}

/** A ratio for people. */
export function times(ratio: number): string {
  return `${ratio.toFixed(2)} ×`;
}

/** A goal that is met when `value` is no more than `limit`. */
export function atMost(
  goal: string,
  value: number,
  limit: number,
  show: (value: number) => string,
): Goal {
  return { goal: `${goal} ≤ ${show(limit)}`, measured: show(value), met: value <= limit };
}

/** The part as text: the title, then columns aligned. */
export function format({ title, table }: Part): string {
  return `\n${title}\n\n${columns(table)}\n`;
}

/** All goals of all parts as text. */
export function summary(parts: readonly Part[]): string {
  const rows = parts.flatMap(({ goals }) => goals).map(({ goal, measured, met }) => [
    met ? "met" : "MISSED",
    measured,
    goal,
  ]);
  return `\nGoals\n\n${columns([["", "measured", "goal"], ...rows], 2)}\n`;
}

function columns(rows: readonly (readonly string[])[], leftFrom = Infinity): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0))
  );
  return rows.map((row) =>
    "  " + row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 0 || column >= leftFrom ? cell.padEnd(width) : cell.padStart(width);
    }).join("  ").trimEnd()
  ).join("\n");
}
