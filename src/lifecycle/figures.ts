/**
 * What became of the messages of a run. Every received message ends in exactly one of the other
 * columns, so `received` is their sum once the run has stopped.
 */
export interface Figures {
  /** Handed over by the mailbox. */
  readonly received: number;
  /** Done, and removed for good. */
  readonly acknowledged: number;
  /** Given back untouched. */
  readonly released: number;
  /** Failed, and back in the queue for another attempt. */
  readonly nacked: number;
  /** Failed for good, and kept with the dead letters. */
  readonly deadLettered: number;
  /** Not settled: the mailbox delivers it again when its lease ends. While running: in flight. */
  readonly leftToExpire: number;
}

/** The figures of a run that received nothing. */
export const NO_FIGURES: Figures = {
  received: 0,
  acknowledged: 0,
  released: 0,
  nacked: 0,
  deadLettered: 0,
  leftToExpire: 0,
};

/** Adds up the figures of several loops. */
export function sumFigures(all: Iterable<Figures>): Figures {
  const sum = { ...NO_FIGURES };
  for (const figures of all) {
    for (const key of Object.keys(sum) as (keyof Figures)[]) sum[key] += figures[key];
  }
  return sum;
}

/** True when every received message is accounted for. */
export function isBalanced(figures: Figures): boolean {
  const { received, ...settled } = figures;
  return received === Object.values(settled).reduce((sum, count) => sum + count, 0);
}
