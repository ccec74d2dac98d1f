// What an examination comes to.

/** How bad it is. */
export type Level = "ok" | "warning" | "problem";

/** One thing that was looked at. */
export interface Finding {
  /** What was looked at, in one word. */
  readonly check: string;
  readonly level: Level;
  /** What was found. */
  readonly found: string;
  /** Why that matters, where it is not well. */
  readonly why?: string;
  /** What to change, to which value. */
  readonly change?: string;
}

/** What there is to say of a finding that is not well. */
export interface Trouble {
  readonly found: string;
  readonly why: string;
  readonly change: string;
}

/** It is well. */
export function ok(check: string, found: string): Finding {
  return { check, level: "ok", found };
}

/** It works, though not for everybody or not always. */
export function warning(check: string, trouble: Trouble): Finding {
  return { check, level: "warning", ...trouble };
}

/** It will go wrong. */
export function problem(check: string, trouble: Trouble): Finding {
  return { check, level: "problem", ...trouble };
}
