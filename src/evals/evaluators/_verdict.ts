import type { Score } from "../score.ts";

/** As much of a verdict as helps. */
const LONGEST_EXCERPT = 200;
/** A verdict is at the end of what a judge says. */
const LONGEST_READ = 10_000;

/** The last object in what a judge said that is a verdict; a failed score where there is none. */
export function readVerdict(answer: string, passAt: number): Score {
  for (const object of objectsIn(answer.slice(-LONGEST_READ)).reverse()) {
    const score = scoreOf(object, passAt);
    if (score !== undefined) return score;
  }
  const excerpt = answer.length <= LONGEST_EXCERPT
    ? answer
    : `${answer.slice(0, LONGEST_EXCERPT)}…`;
  return {
    value: 0,
    passed: false,
    reason: `the verdict cannot be read: ${JSON.stringify(excerpt)}`,
  };
}

function scoreOf(verdict: Readonly<Record<string, unknown>>, passAt: number): Score | undefined {
  const { score, value = score, passed, reason } = verdict;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  const known = typeof number === "number" && number >= 0 && number <= 1;
  // A number out of range means another scale, which nobody knows.
  if (!known && (value !== undefined || typeof passed !== "boolean")) return undefined;
  const isPassed = typeof passed === "boolean" ? passed : number as number >= passAt;
  return {
    value: known ? number : isPassed ? 1 : 0,
    passed: isPassed,
    ...(typeof reason === "string" ? { reason } : {}),
  };
}

/** Every JSON object within a text that is not part of another. */
function objectsIn(text: string): Readonly<Record<string, unknown>>[] {
  const found: Readonly<Record<string, unknown>>[] = [];
  for (let start = text.indexOf("{"); start >= 0; start = text.indexOf("{", start + 1)) {
    const end = endOfObject(text, start);
    if (end === undefined) continue;
    try {
      found.push(JSON.parse(text.slice(start, end)));
      start = end - 1;
    } catch {
      // prose with braces
    }
  }
  return found;
}

/** Where the object that begins at `start` ends, braces within its texts aside. */
function endOfObject(text: string, start: number): number | undefined {
  let depth = 0;
  let quoted = false;
  for (let i = start; i < text.length; i++) {
    const character = text[i];
    if (quoted && character === "\\") i++;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === "{") depth++;
    else if (!quoted && character === "}" && --depth === 0) return i + 1;
  }
  return undefined;
}
