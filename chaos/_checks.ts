// Checks what the options of a run promise, against the record of the run.

import { type SlotDelivery, slotFaultsOf } from "./_cron.ts";
import { type Handling, type Ledger, type Orphan, START_DELAY_MS } from "./_ledger.ts";
import { orderFaultsOf } from "./_order.ts";
import type { ChaosResult, Check } from "./_result.ts";
import { type ChaosOptions, type FaultKind, isServerFault } from "./options.ts";

/** A pause of the queue. Times are in milliseconds since the Unix epoch. */
export interface Pause {
  /** When the engine had confirmed it. */
  readonly confirmedAt: number;
  /** The earliest time at which it may end. */
  readonly endsAt: number;
}

/** What is known when all workers have ended. */
export interface Remains {
  /** The ids of all dead letters. */
  readonly deadLetters: ReadonlySet<string>;
  /** The slots that cron loops sent; undefined for a run without them. */
  readonly slots?: readonly SlotDelivery[] | undefined;
  /** The time until which all slots must have been sent. */
  readonly slotsUntil: number;
}

/** The record of a run. */
export interface RunRecord extends Remains {
  readonly ledger: Ledger;
  readonly pauses: readonly Pause[];
  /** When the server was killed. */
  readonly crashes: readonly number[];
  /** A crash of the server may undo deliveries of so many milliseconds before it. */
  readonly undoneMs: number;
  /** The ids of the messages whose handlers end their processes. */
  readonly poison: ReadonlySet<string>;
}

/** The faults that leave all leases valid while their handlers run, also when leases are short. */
const KEEPS_LEASES: readonly FaultKind[] = ["term", "kill", "pause"];

/** Makes the checks that the options of a run ask for. */
export function checksOf(
  { faults, keys, cancels, longLeases, steps, limit }: ChaosOptions,
  { ledger, pauses, crashes, undoneMs, poison, deadLetters, slots, slotsUntil }: RunRecord,
): Pick<ChaosResult, "checks" | "remarks"> {
  const { handlings, promptHandlings } = ledger;
  const keptLeases = longLeases || faults.every((kind) => KEEPS_LEASES.includes(kind));
  const checks: Check[] = [];
  const remarks: string[] = [];
  const check = (name: string, problem: string, broken: readonly string[]) =>
    checks.push({ name, problem: `messages were ${problem}`, broken: ledger.histories(broken) });
  if (keys > 0) {
    const { inversions, overlaps } = orderFaultsOf(handlings, keys, keptLeases);
    check("inversions", "completed before an earlier message of their key", inversions);
    check("overlaps", "handled beside another message of their key", overlaps);
  }
  if (cancels > 0) {
    check("revived", "handled although they were cancelled", ledger.revived);
    remarks.push(abortRemark(ledger));
  }
  if (longLeases) {
    const isUndone = ({ startedAt }: Handling) =>
      crashes.some((at) => startedAt <= at && startedAt >= at - undoneMs);
    const stolen = stolenOf(handlings, isUndone);
    check("stolen", "started while a live worker was handling them", stolen);
    const recoveries = recoveriesOf(ledger);
    if (recoveries.length > 0) remarks.push(recoveryRemark(recoveries));
    // A server that was restarted cannot tell whether the workers of before are dead.
    if (!faults.some(isServerFault)) {
      check("expired", "delivered again only when their leases expired", expiredOf(recoveries));
    }
  }
  if (poison.size > 0) {
    const spared = [...poison].filter((id) => !deadLetters.has(id));
    check("spared", "not dead-lettered though they end their workers", spared);
  }
  if (steps) {
    const rerun = rerunOf(handlings, keptLeases);
    check("rerun", "given a step again whose result was saved", rerun);
  }
  if (faults.includes("pause")) {
    const started = startedInPauseOf(promptHandlings, pauses);
    check("in a pause", "started during a pause of the queue", started);
  }
  if (limit > 0) {
    check("too early", "started beyond the rate limit", beyondLimitOf(promptHandlings, limit));
    remarks.push(rateRemark(handlings, limit));
  }
  if (slots !== undefined) {
    const broken = slotFaultsOf(slots, slotsUntil).map((id) => ({ id, history: "not sent once" }));
    checks.push({ name: "cron slots", problem: "slots were sent twice or not at all", broken });
    remarks.push(`cron        ${new Set(slots.map(({ slot }) => slot)).size} slots`);
  }
  return { checks, remarks };
}

/** Returns a line with how soon handlers heard that their message was cancelled. */
function abortRemark({ abortMs }: Ledger): string {
  const [p50, p99] = [quantile(abortMs, 0.5), quantile(abortMs, 0.99)];
  return `aborted     ${abortMs.length} handlers; median ${p50} ms, p99 ${p99} ms after cancel`;
}

/**
 * Returns the messages that a worker started while their handler was running in another worker. A handler that
 * was killed with its worker had ended, and the handler of a suspended worker had not. A message whose delivery
 * a crash of the server has undone is delivered again. Only for a run in which no lease expires.
 */
export function stolenOf(
  handlings: Iterable<Handling>,
  isUndone: (handling: Handling) => boolean = () => false,
): string[] {
  const stolen = new Set<string>();
  for (const [id, calls] of byMessage(handlings)) {
    let endedAt = -Infinity;
    for (const call of calls.toSorted((a, b) => a.startedAt - b.startedAt)) {
      if (call.startedAt < endedAt) stolen.add(id);
      if (!isUndone(call)) endedAt = Math.max(endedAt, call.endedAt ?? Infinity);
    }
  }
  return [...stolen];
}

/**
 * Returns the messages of which a step ran again although its result was saved. An engine accepts a result only
 * under a valid lease, so a step that two handlers ran and saved has run again. Where the second one saved
 * nothing, its lease may have expired before, unless `keptLeases` tells that no lease did.
 */
export function rerunOf(handlings: Iterable<Handling>, keptLeases: boolean): string[] {
  const rerun = new Set<string>();
  for (const [id, calls] of byMessage(handlings)) {
    const savedAt = new Map<string, number>();
    const savers = new Map<string, number>();
    for (const { steps } of calls) {
      for (const [name, step] of steps) {
        if (step.savedAt === undefined) continue;
        savedAt.set(name, Math.min(step.savedAt, savedAt.get(name) ?? Infinity));
        if (step.ranAt !== undefined) savers.set(name, (savers.get(name) ?? 0) + 1);
      }
    }
    const ranLate = ({ steps }: Handling) =>
      [...steps].some(([name, { ranAt = -Infinity }]) => ranAt > (savedAt.get(name) ?? Infinity));
    const savedTwice = [...savers.values()].some((count) => count > 1);
    if (savedTwice || keptLeases && calls.some(ranLate)) rerun.add(id);
  }
  return [...rerun];
}

/** Returns the messages that were started during a pause. */
export function startedInPauseOf(
  handlings: Iterable<Handling>,
  pauses: readonly Pause[],
): string[] {
  const isInPause = ({ startedAt }: Handling) =>
    pauses.some(({ confirmedAt, endsAt }) =>
      startedAt > confirmedAt + START_DELAY_MS && startedAt < endsAt
    );
  return [...new Set([...handlings].filter(isInPause).map(({ id }) => id))];
}

/**
 * Returns the messages whose starts are beyond a limit per second. In any time, at most `limit` × (seconds + 1)
 * are delivered; as they start up to a second later, `limit` × (seconds + 2) may start. `handlings` are sorted.
 */
export function beyondLimitOf(handlings: readonly Handling[], limit: number): string[] {
  const most = limit * (1 + START_DELAY_MS / 1_000);
  const beyond: string[] = [];
  let least = Infinity;
  for (const [i, { id, startedAt }] of handlings.entries()) {
    // How far the starts are ahead of the limit, compared with any earlier start.
    const ahead = i - limit * startedAt / 1_000;
    least = Math.min(least, ahead);
    if (ahead + 1 - least > most) beyond.push(id);
  }
  return beyond;
}

/** Returns a line with the rate at which handlers started. */
export function rateRemark(handlings: readonly Handling[], limit: number): string {
  const starts = handlings.map(({ startedAt }) => startedAt).sort((a, b) => a - b);
  const seconds = ((starts.at(-1) ?? 0) - (starts[0] ?? 0)) / 1_000;
  const rate = (handlings.length / seconds).toFixed(1);
  return `rate        ${rate} starts/s in ${seconds.toFixed(1)} s, with a limit of ${limit}`;
}

/** The time from the kill of a worker to the next start of a message that it held. */
export interface Recovery {
  readonly id: string;
  readonly ms: number;
}

/**
 * Returns how the messages of killed workers came back, the fastest first. A message that does not start again
 * was acknowledged before.
 */
export function recoveriesOf({ orphans, handlings }: Ledger): Recovery[] {
  const calls = byMessage(handlings);
  const recovery = ({ id, killedAt }: Orphan) => {
    const later = (calls.get(id) ?? []).filter(({ startedAt }) => startedAt > killedAt);
    return { id, ms: Math.min(...later.map(({ startedAt }) => startedAt)) - killedAt };
  };
  return orphans.map(recovery).filter(({ ms }) => ms < Infinity).sort((a, b) => a.ms - b.ms);
}

/** Less than what is left of a lease of 300 s when a worker is killed: such messages came back by its expiry. */
const EXPIRED_AFTER_MS = 100_000;

/** Returns the messages that came back because their leases had expired. */
export function expiredOf(recoveries: readonly Recovery[]): string[] {
  return recoveries.filter(({ ms }) => ms > EXPIRED_AFTER_MS).map(({ id }) => id);
}

/** Returns a line with the times in which the messages of killed workers came back. */
export function recoveryRemark(recoveries: readonly Recovery[]): string {
  const expired = expiredOf(recoveries).length;
  const ms = recoveries.slice(0, recoveries.length - expired).map((it) => it.ms);
  const at = (share: number) => `${((quantile(ms, share) ?? 0) / 1_000).toFixed(1)} s`;
  return `recovered   ${ms.length} messages of killed workers; p50 ${at(0.5)}, p99 ${at(0.99)}, ` +
    `max ${at(1)} after SIGKILL` + (expired > 0 ? `; ${expired} when their leases expired` : "");
}

/** Returns a quantile of sorted numbers; undefined when there are none. */
function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

function byMessage(handlings: Iterable<Handling>): Map<string, Handling[]> {
  const groups = new Map<string, Handling[]>();
  for (const handling of handlings) {
    const group = groups.get(handling.id);
    if (group === undefined) groups.set(handling.id, [handling]);
    else group.push(handling);
  }
  return groups;
}
