import { type AsyncScope, knownRuntime } from "../runtime.ts";

/** A piece of running work, and the work that started it. */
interface Work {
  readonly owner: object;
  readonly outer: Work | undefined;
  over: boolean;
}

let scope: AsyncScope<Work> | undefined;

/**
 * Runs `work`. Until it settles, `isInside(owner)` returns true in it and in everything that it starts.
 * A run calls this once, not for every message: entering a scope costs about as much as handling a
 * message in memory.
 */
export async function runInside<T>(owner: object, work: () => Promise<T>): Promise<T> {
  scope ??= knownRuntime()?.createScope?.();
  if (scope === undefined) return await work();
  const inside: Work = { owner, outer: current(), over: false };
  try {
    return await scope.run(inside, work);
  } finally {
    inside.over = true;
  }
}

/**
 * Returns whether the caller is part of the work of `owner`; without `owner`, of any work. Such a caller
 * must not wait for that work, because it would wait for itself.
 */
export function isInside(owner?: object): boolean {
  let work = current();
  while (work !== undefined && owner !== undefined && work.owner !== owner) work = outer(work);
  return work !== undefined;
}

function current(): Work | undefined {
  const work = scope?.get();
  return work?.over ? outer(work) : work;
}

/** Returns the nearest outer work that still runs. */
function outer(work: Work): Work | undefined {
  let next = work.outer;
  while (next?.over) next = next.outer;
  return next;
}
