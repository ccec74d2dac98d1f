// Explores seeds in several threads, a chunk of seeds at a time.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { addTotals, type Explored, NO_TOTALS, type Totals } from "./explore.ts";

/** The seeds that one thread simulates in a row. */
const CHUNK = 100;

/** A range of seeds. */
export interface Seeds {
  readonly first: number;
  readonly count: number;
}

/**
 * Explores all seeds, or stops soon after one has broken a rule. Calls `onProgress` with the totals of all seeds
 * before the first one that is not explored yet.
 */
export async function exploreAll(
  { first, count }: Seeds,
  onProgress: (done: Totals) => void = () => {},
  threads: number = availableParallelism(),
): Promise<Totals & Pick<Explored, "failure">> {
  const done: Totals[] = [];
  let failure: Explored["failure"];
  let next = 0;
  const work = async () => {
    const thread = new Worker(new URL("./_thread.ts", import.meta.url));
    try {
      while (next < count && failure === undefined) {
        const chunk = { first: first + next, count: Math.min(CHUNK, count - next) };
        const place = next / CHUNK;
        next += chunk.count;
        const explored = await exploreIn(thread, chunk);
        done[place] = explored;
        failure ??= explored.failure;
        onProgress(
          sumOf(done.slice(0, Array.from(done).findIndex((it) => it === undefined) >>> 0)),
        );
      }
    } finally {
      await thread.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, threads) }, work));
  return { ...sumOf(done.filter((it) => it !== undefined)), failure };
}

function sumOf(all: readonly Totals[]): Totals {
  return all.reduce(addTotals, NO_TOTALS);
}

function exploreIn(thread: Worker, seeds: Seeds): Promise<Explored> {
  return new Promise((resolve, reject) => {
    thread.removeAllListeners().once("message", resolve).once("error", reject);
    thread.postMessage(seeds);
  });
}
