import type { Worker } from "./_worker.ts";

/** The worker for the next attempt. */
export interface Choice {
  readonly worker: Worker;
  /** True when no worker was healthy, and this one was chosen among the unhealthy. */
  readonly noneHealthy: boolean;
}

/**
 * Returns the worker with the most free slots; among equal ones the least recently used. When no worker is
 * healthy, it chooses among the unhealthy.
 */
export function choose(
  workers: readonly Worker[],
  excluded: ReadonlySet<string>,
): Choice | undefined {
  const left = workers.filter(({ address }) => !excluded.has(address.id));
  const eligible = left.filter((worker) => worker.eligible);
  const noneHealthy = eligible.length === 0;
  const worker = freest(noneHealthy ? left : eligible);
  return worker && { worker, noneHealthy };
}

function freest(workers: readonly Worker[]): Worker | undefined {
  let best: Worker | undefined;
  for (const worker of workers) {
    const ahead = best === undefined || worker.freeSlots > best.freeSlots ||
      worker.freeSlots === best.freeSlots && worker.lastRequest < best.lastRequest;
    if (ahead) best = worker;
  }
  return best;
}

/** Returns the worker that a session belongs to, by rendezvous hashing. */
export function ownerOf(workers: readonly Worker[], sessionId: string): Worker | undefined {
  let owner: Worker | undefined;
  let highest = -1;
  for (const worker of workers) {
    const weight = hash(`${worker.address.id}\0${sessionId}`);
    if (weight > highest) [owner, highest] = [worker, weight];
  }
  return owner;
}

/** FNV-1a with a final mix, so that texts that differ only in their last characters spread. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  value = Math.imul(value ^ value >>> 16, 0x85ebca6b);
  return (value ^ value >>> 13) >>> 0;
}
