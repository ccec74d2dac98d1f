// How often to measure: often enough for a median, and not for ever on a machine that is busy.

const FEWEST = 3;

/** Counts rounds from 0 until there are `most`, or `limitMs` have passed and there are a few. */
export function* rounds(most: number, limitMs: number): Generator<number, void> {
  const began = performance.now();
  for (let round = 0; round < most; round++) {
    if (round >= FEWEST && performance.now() - began > limitMs) return;
    yield round;
  }
}
