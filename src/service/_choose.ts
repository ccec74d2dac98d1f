import type { Worker } from "./_worker.ts";

/** The worker to ask. */
export interface Choice {
  readonly worker: Worker;
  /** True when no worker was healthy, and this one is asked all the same. */
  readonly noneHealthy: boolean;
}

/**
 * The one with the most free slots; among equal ones the one that was asked the longest time ago. When
 * nobody is healthy an unhealthy one is better than none.
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
      worker.freeSlots === best.freeSlots && worker.lastTurn < best.lastTurn;
    if (ahead) best = worker;
  }
  return best;
}

/** The worker that a session belongs to: always the same one, as long as it is among the workers. */
export function ownerOf(workers: readonly Worker[], sessionId: string): Worker | undefined {
  let owner: Worker | undefined;
  let highest = -1;
  for (const worker of workers) {
    const weight = hash(`${worker.address.id}\0${sessionId}`);
    if (weight > highest) [owner, highest] = [worker, weight];
  }
  return owner;
}

/** FNV-1a with a finish that spreads what differs in the last letters only. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  value = Math.imul(value ^ value >>> 16, 0x85ebca6b);
  return (value ^ value >>> 13) >>> 0;
}
