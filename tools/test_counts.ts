// Reads the test counts out of what the three test runners print at their end.

import type { RuntimeName } from "./runtimes.ts";

/** What a test runner counted. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** No test at all. */
export const none: Counts = { passed: 0, failed: 0, skipped: 0 };

/** Adds the counts of several runs. */
export function sum(all: readonly Counts[]): Counts {
  return all.reduce((a, b) => ({
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
  }), none);
}

/** As in `3 passed, 0 failed`, with `, 1 skipped` only when there are. */
export function describe({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** The counts in a runner's output; {@linkcode none} when it ended before its summary. */
export function parseCounts(runner: RuntimeName, output: string): Counts {
  return parsers[runner](output);
}

const parsers: Readonly<Record<RuntimeName, (output: string) => Counts>> = {
  // ℹ pass 12, one figure a line; a cancelled test is one that never came to its end
  node: (output) => {
    const figure = (name: string) => last(output, new RegExp(`^ℹ ${name} (\\d+)$`, "gm"));
    return {
      passed: figure("pass"),
      failed: figure("fail") + figure("cancelled"),
      skipped: figure("skipped") + figure("todo"),
    };
  },
  //  12 pass, one figure a line; those that are zero may be left out, errors are among the failed
  bun: (output) => {
    const figure = (name: string) => last(output, new RegExp(`^ *(\\d+) ${name}$`, "gm"));
    return {
      passed: figure("pass"),
      failed: figure("fail"),
      skipped: figure("skip") + figure("todo"),
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

/** The summary comes last: whatever a test printed in the same form stands before it. */
function last(output: string, pattern: RegExp): number {
  return Number([...output.matchAll(pattern)].at(-1)?.[1] ?? 0);
}
