import { show } from "../_checks.ts";

/** How good an output is. */
export interface Score {
  /** From 0 to 1. */
  readonly value: number;
  /** Whether that is good enough. */
  readonly passed: boolean;
  /** For whoever looks into it. */
  readonly reason?: string;
}

/** A score of 1 or 0. */
export function passOrFail(passed: boolean, reason?: string): Score {
  return { value: passed ? 1 : 0, passed, ...(reason === undefined ? {} : { reason }) };
}

/** What an evaluator said as a score; refuses what is none. */
export function checkScore(said: Score | boolean): Score {
  if (typeof said === "boolean") return passOrFail(said);
  const { value, passed, reason } = Object(said) as Partial<Score>;
  const fits = typeof value === "number" && value >= 0 && value <= 1 &&
    typeof passed === "boolean" && (reason === undefined || typeof reason === "string");
  if (fits) return said;
  throw new TypeError(
    "Invalid score: expected true, false or { value from 0 to 1, passed, reason? }, got " +
      (typeof said === "object" ? JSON.stringify(said) : show(said)),
  );
}
