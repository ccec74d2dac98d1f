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
  /** What one must know to read the table, and what was left out and why. */
  readonly notes?: readonly string[];
}

/** The middle value; with an even number of values the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which the share `q` of the values lies, interpolated. */
function quantile(values: readonly number[], q: number): number {
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

/** The milliseconds that something took. */
export async function timed(act: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await act();
  return performance.now() - began;
}

/** The headings of {@linkcode spread}. */
export const SPREAD = ["rounds", "median ms", "10 %", "90 %"] as const;

/** How many values there are and where they lie. */
export function spread(values: readonly number[]): string[] {
  const marks = [0.5, 0.1, 0.9].map((q) => ms(quantile(values, q)));
  return [String(values.length), ...marks];
}

/** How much more it is than `baseline`. */
export function over(value: number, baseline: number): string {
  return `+ ${ms(Math.max(0, value - baseline))}`;
}

/** Thousands in a second, of `count` things in `ms`. */
export function rate(count: number, ms: number): string {
  const thousands = count / ms;
  return thousands.toFixed(thousands < 100 ? 1 : 0);
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

/** A goal that is met when `value` is no less than `limit`. */
export function atLeast(
  goal: string,
  value: number,
  limit: number,
  show: (value: number) => string,
): Goal {
  return { goal: `${goal} ≥ ${show(limit)}`, measured: show(value), met: value >= limit };
}

/** The part as text: the title, then columns aligned, then the notes. */
export function format({ title, table, notes = [] }: Part): string {
  const lines = notes.map((note) => `\n  ${note}`).join("");
  return `\n${title}\n\n${columns(table)}\n${lines}${lines && "\n"}`;
}

/** All goals as text. */
export function summary(goals: readonly Goal[]): string {
  const rows = goals.map(({ goal, measured, met }) => [
    met ? "met" : "MISSED",
    measured,
    goal,
  ]);
  return `\nGoals\n\n${columns([["", "measured", "goal"], ...rows])}\n`;
}

/** Numbers stand right, words left. */
function columns(rows: readonly (readonly string[])[]): string {
  const shape = (rows[0] ?? []).map((_, column) => {
    const cells = rows.map((row) => row[column] ?? "");
    return {
      width: Math.max(...cells.map(({ length }) => length)),
      right: cells.slice(1).every((cell) => /^[+\d. ]*(×|ms|bytes)?$/.test(cell)),
    };
  });
  const line = (row: readonly string[]) =>
    shape.map(({ width, right }, column) => {
      const cell = row[column] ?? "";
      return right ? cell.padStart(width) : cell.padEnd(width);
    });
  return rows.map((row) => `  ${line(row).join("  ")}`.trimEnd()).join("\n");
}
