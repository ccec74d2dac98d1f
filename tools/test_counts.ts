// Parses the summaries of the three test runners.

import type { RuntimeName } from "./runtimes.ts";

/** The counts of a test run. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** The counts of no test. */
export const none: Counts = { passed: 0, failed: 0, skipped: 0 };

/** Adds the counts of several runs. */
export function sum(all: readonly Counts[]): Counts {
  return all.reduce((a, b) => ({
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
  }), none);
}

/** Formats counts: `3 passed, 0 failed`, and `, 1 skipped` if there are any. */
export function describe({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** Parses the output of a runner. Returns {@linkcode none} if it has no summary. */
export function parseCounts(runner: RuntimeName, output: string): Counts {
  return parsers[runner](output);
}

const parsers: Readonly<Record<RuntimeName, (output: string) => Counts>> = {
  // ℹ pass 12, one count a line; a cancelled test did not finish
  node: (output) => {
    const count = (name: string) => last(output, new RegExp(`^ℹ ${name} (\\d+)$`, "gm"));
    return {
      passed: count("pass"),
      failed: count("fail") + count("cancelled"),
      skipped: count("skipped") + count("todo"),
    };
  },
  //  12 pass, one count a line; zeros may be missing, errors count as failed
  bun: (output) => {
    const count = (name: string) => last(output, new RegExp(`^ *(\\d+) ${name}$`, "gm"));
    return {
      passed: count("pass"),
      failed: count("fail"),
      skipped: count("skip") + count("todo"),
    };
  },
  // ok | 12 passed (3 steps) | 0 failed | 1 ignored (2s)
  deno: (output) => {
    const line = output.match(/^(?:ok|FAILED) \| .*$/gm)?.at(-1) ?? "";
    return {
      passed: last(line, /(\d+) passed/g),
      failed: last(line, /(\d+) failed/g),
      skipped: last(line, /(\d+) ignored/g),
    };
  },
};

/** Uses the last match: a test may print the same text before the summary. */
function last(output: string, pattern: RegExp): number {
  return Number([...output.matchAll(pattern)].at(-1)?.[1] ?? 0);
}
