// How often to measure: often enough for a median, and not for ever on a machine that is busy.

import process from "node:process";

/** The environment variable that `--quick` sets. The fixtures read it too. */
export const QUICK_VARIABLE = "LASTCALL_BENCH_QUICK";

const FEWEST = 5;
const QUICK = 3;

/** Counts rounds from 0 until there are `most`, or `limitMs` have passed and there are a few. */
export function* rounds(most: number, limitMs: number): Generator<number, void> {
  const began = performance.now();
  const enough = process.env[QUICK_VARIABLE] === undefined ? most : Math.min(most, QUICK);
  for (let round = 0; round < enough; round++) {
    if (round >= FEWEST && performance.now() - began > limitMs) return;
    yield round;
  }
}
