import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import { type Deadline, reserveOf } from "./deadline.ts";
import type { Member } from "./_member.ts";

/**
 * Stops the members, lower priorities first and equal ones together, each within the smaller of its
 * own time and what is left. A priority that hangs leaves a reserve for each stage after it, so that
 * everybody is told in time. `cancel` is called for those whose time is nearly up.
 */
export async function stopByPriority(
  members: readonly Member[],
  deadline: Deadline,
  clock: Clock,
  cancel: (members: readonly Member[]) => void,
): Promise<void> {
  const priorities = groupBy(members, ({ loop }) => loop.priority ?? 0);
  const tiers = [...priorities].sort(([a], [b]) => a - b).map(([, tier]) => tier);
  for (const [index, tier] of tiers.entries()) {
    const budgetMs = deadline.budgetMs(tiers.length - index);
    const active = tier.filter((member) => member.active);
    const times = groupBy(
      active,
      ({ loop }) => Math.min(budgetMs, loop.shutdownTimeoutMs ?? budgetMs),
    );
    await Promise.all(
      Array.from(times, ([ms, together]) => stopWithin(ms, together, clock, cancel)),
    );
  }
}

async function stopWithin(
  ms: number,
  members: readonly Member[],
  clock: Clock,
  cancel: (members: readonly Member[]) => void,
): Promise<void> {
  const reserveMs = reserveOf(ms);
  const done = Promise.all(members.map((member) => member.done));
  // Before the loops set timers of their own for the same moment, so that the group cancels first.
  const inTime = settlesWithin(done, ms - reserveMs, clock);
  for (const member of members) member.stop(ms);
  if (await inTime) return;
  cancel(members.filter((member) => member.active));
  await settlesWithin(done, reserveMs, clock);
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => number): Map<number, T[]> {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}
