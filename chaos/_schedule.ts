// The faults of a run, computed before it starts: the same seed gives the same schedule on any machine.

import { createHash } from "node:crypto";
import { type Random, seededRandom } from "../src/random.ts";
import type { FaultKind } from "./options.ts";

/** How often each kind occurs, relative to the others. */
const WEIGHTS: Readonly<Record<FaultKind, number>> = {
  term: 4,
  kill: 3,
  suspend: 2,
  restart: 1,
  freeze: 1,
  pause: 1,
};

/** One fault of a schedule. */
export interface PlannedFault {
  /** When it is injected, in milliseconds since the start of the schedule. */
  readonly atMs: number;
  readonly kind: FaultKind;
  /** How long it lasts, as a share from 0 to 1 of the range of its kind. */
  readonly share: number;
  /** The place of its worker among those that work at that time, as a share from 0 to 1 of their number. */
  readonly worker: number;
}

/** What a schedule depends on. */
export interface ScheduleOptions {
  readonly seed: number;
  readonly kinds: readonly FaultKind[];
  /** How long faults are injected. */
  readonly ms: number;
  readonly perSecond: number;
}

/** Returns the faults of a run: each kind once, in random order, and then kinds at random. */
export function scheduleOf({ seed, kinds, ms, perSecond }: ScheduleOptions): PlannedFault[] {
  const random = seededRandom(seed);
  const first = shuffle(random, kinds);
  const tickets = kinds.flatMap((kind) => Array<FaultKind>(WEIGHTS[kind]).fill(kind));
  const schedule: PlannedFault[] = [];
  for (let atMs = 0;;) {
    atMs += Math.round((0.5 + random.number()) * 1_000 / perSecond);
    const kind = first.shift() ?? pick(random, tickets);
    if (kind === undefined || atMs >= ms) return schedule;
    schedule.push({ atMs, kind, share: random.number(), worker: random.number() });
  }
}

/** Returns a short hash by which two runs can be compared. */
export function hashOf(schedule: readonly PlannedFault[]): string {
  return createHash("sha256").update(JSON.stringify(schedule)).digest("hex").slice(0, 8);
}

/** Returns the ids of `count` of the messages 1 to `messages`. */
export function poisonIdsOf(seed: number, count: number, messages: number): ReadonlySet<string> {
  const ids = Array.from({ length: messages }, (_, i) => `${i + 1}`);
  return new Set(count === 0 ? [] : shuffle(seededRandom(seed + 1), ids).slice(0, count));
}

/** Returns one of the items; undefined when there is none. */
export function pick<T>(random: Random, items: readonly T[]): T | undefined {
  return items[Math.floor(random.number() * items.length)];
}

/** Returns the items in random order. */
export function shuffle<T>(random: Random, items: readonly T[]): T[] {
  const keyed = items.map((item) => ({ item, key: random.number() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item);
}
