/**
 * Replaces the libraries that examples 15 and 17 migrate from, so that they run without them: a list of jobs,
 * and the functions of a queue and a worker that the examples call.
 */

import { systemClock } from "../mod.ts";

export interface StandIn {
  readonly queue: {
    getJobCounts(...kinds: readonly string[]): Promise<Record<string, number>>;
  };
  readonly worker: {
    /** Resolves when the worker was closed. */
    run(): Promise<void>;
    /** Finishes the current job. */
    close(): Promise<void>;
  };
}

export function standIn<T>(jobs: readonly T[], work: (job: T) => unknown): StandIn {
  const waiting = [...jobs];
  const closing = new AbortController();
  let running = Promise.resolve();
  const run = async () => {
    const { signal } = closing;
    while (!signal.aborted) {
      const [job] = waiting;
      if (job === undefined) await systemClock.sleep(60_000, { signal }).catch(() => {});
      else {
        await work(job);
        waiting.shift();
      }
    }
  };
  return {
    queue: { getJobCounts: () => Promise.resolve({ waiting: waiting.length }) },
    worker: {
      run: () => running = run(),
      close: () => (closing.abort(), running),
    },
  };
}
