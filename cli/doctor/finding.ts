// The result of a check, and how it writes durations.

/** The severity of a finding. */
export type Level = "ok" | "warning" | "problem";

/** The result of one check. */
export interface Finding {
  /** The name of the check. */
  readonly check: string;
  /** The name of the loop that it is about. */
  readonly loop?: string;
  readonly level: Level;
  readonly found: string;
  /** Why it matters. Set for warnings and problems. */
  readonly why?: string;
  /** What to change, with the value to set. Set for warnings and problems. */
  readonly change?: string;
}

/** The text of a warning or a problem. */
export type Advice = Required<Pick<Finding, "found" | "why" | "change">>;

/** Makes a finding that needs no change. */
export function ok(check: string, found: string): Finding {
  return { check, level: "ok", found };
}

/** Makes a finding that fails in some situations. */
export function warning(check: string, advice: Advice): Finding {
  return { check, level: "warning", ...advice };
}

/** Makes a finding that will fail. */
export function problem(check: string, advice: Advice): Finding {
  return { check, level: "problem", ...advice };
}

/** Formats a duration exactly, because users compare them: `500 ms`, `4.5 s`, `5 min`, `12 h`. */
export function durationText(ms: number): string {
  if (ms > 0 && ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms >= 7_200_000 && ms % 3_600_000 === 0) return `${ms / 3_600_000} h`;
  if (ms >= 120_000 && ms % 60_000 === 0) return `${ms / 60_000} min`;
  return `${Number((ms / 1_000).toFixed(1))} s`;
}

/** Formats a duration as the value of a flag: `500ms`, `4.5s`, `5m`. */
export function flagValue(ms: number): string {
  return durationText(ms).replace(" min", "m").replace(" ", "");
}

/** Rounds up to whole seconds. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1_000) * 1_000;
}
