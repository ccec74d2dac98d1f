// What happens in a simulation: the processes, the messages and the faults. fast-check makes scenarios from
// seeds, and reduces the one of a failure.

import * as fc from "fast-check";
import type { WorkKind } from "./jobs.ts";
import type { LossKind } from "./link.ts";
import type { WorkerPlan } from "./worker.ts";

/** A message to send. */
export interface PlannedMessage {
  readonly atMs: number;
  readonly work: WorkKind;
  readonly ms: number;
  readonly key: number | null;
  readonly priority: number;
  readonly delayMs: number;
  readonly expiresInMs: number | null;
}

const FAULTS = [
  "kill",
  "freeze",
  "term",
  "interrupt",
  "termTwice",
  "cut",
  "silence",
  "slow",
  "lose",
  "loseReceives",
  "jump",
  "cancel",
  "pause",
  "restartServer",
  "freezeServer",
] as const;
/** A kind of fault, or of an event that a program must cope with. */
export type FaultKind = typeof FAULTS[number];

/** A fault. What `share` means depends on the kind. */
export interface PlannedFault {
  readonly atMs: number;
  readonly kind: FaultKind;
  /** The number of the process, or of the message; 0 is the sender. */
  readonly target: number;
  readonly ms: number;
  readonly losses: readonly LossKind[];
}

/** A process, which is started again when it ends. */
export interface PlannedWorker extends WorkerPlan {
  readonly skewMs: number;
  readonly rate: number;
  readonly restartMs: number;
}

/** A message from the sender to the inbox of a member. */
export interface PlannedTask {
  readonly atMs: number;
  readonly to: number;
  readonly work: WorkKind;
  readonly ms: number;
}

/** A whole simulation. */
export interface Scenario {
  /** The seed of latencies and jitter. */
  readonly seed: number;
  readonly latencyMs: number;
  /** How often all processes are replaced after the last message was sent, until all messages are handled. */
  readonly deployMs: number;
  /** Whether the server hands messages over to waiting receives. */
  readonly handsOver: boolean;
  readonly workers: readonly PlannedWorker[];
  readonly messages: readonly PlannedMessage[];
  /** Messages between members; with none, there are no members. */
  readonly tasks: readonly PlannedTask[];
  readonly faults: readonly PlannedFault[];
}

/** When the last message is sent and the last fault begins, at the latest. */
export const BUSY_MS = 40_000;

const atMs = fc.integer({ min: 0, max: BUSY_MS });
/** Some messages are sent, and some faults begin, at almost the same time. */
const momentMs = fc.oneof(
  { weight: 1, arbitrary: atMs },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 60 }))
      .map(([burst, ms]) => burst * 10_000 + ms),
  },
);
const ms = fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 20_000 }));

const worker: fc.Arbitrary<PlannedWorker> = fc.record({
  concurrency: fc.integer({ min: 1, max: 4 }),
  prefetch: fc.constantFrom<number | "auto">(0, 1, 4, "auto", "auto"),
  visibilityMs: fc.constantFrom(30_000, 5_000, 2_000),
  shutdownTimeoutMs: fc.constantFrom(10_000, 2_000, 30_000),
  maxDeliveries: fc.constant(6),
  cron: fc.constant(false),
  skewMs: fc.integer({ min: -2_000, max: 2_000 }),
  rate: fc.constantFrom(1, 0.99, 1.01),
  restartMs: fc.integer({ min: 100, max: 3_000 }),
});

const work: fc.Arbitrary<WorkKind> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom<WorkKind>("ok", "steps") },
  {
    weight: 4,
    arbitrary: fc.constantFrom<WorkKind>(
      "stubborn",
      "flaky",
      "bad",
      "hangs",
      "poison",
      "blocks",
      "later",
      "settles",
    ),
  },
);

const message: fc.Arbitrary<PlannedMessage> = fc.record({
  atMs: momentMs,
  work,
  ms: fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 200 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 8_000 }) },
  ),
  key: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 2 }),
  priority: fc.constantFrom(0, 0, 0, 5, 9),
  delayMs: fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 15_000 }) },
  ),
  expiresInMs: fc.oneof(
    { weight: 7, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 10_000 }) },
  ),
});

const task: fc.Arbitrary<PlannedTask> = fc.record({
  atMs,
  to: fc.nat({ max: 3 }),
  work: fc.constantFrom<WorkKind>("ok", "stubborn"),
  ms: fc.integer({ min: 0, max: 2_000 }),
});

const fault: fc.Arbitrary<PlannedFault> = fc.record({
  atMs: momentMs,
  kind: fc.constantFrom(...FAULTS),
  target: fc.nat({ max: 5 }),
  ms,
  losses: fc.array(fc.constantFrom<LossKind>("request", "answer", "late", "silent"), {
    minLength: 1,
    maxLength: 4,
  }),
});

/** Faults of all kinds, or of few, so that each is also seen often and without the others. */
const faults = fc.oneof(
  fc.tuple(
    fc.array(fault, { maxLength: 10, size: "max" }),
    fc.oneof(fc.constant([...FAULTS]), fc.subarray([...FAULTS], { maxLength: 4 })),
  ).map(([faults, kinds]) => faults.filter(({ kind }) => kinds.includes(kind))),
  fc.tuple(
    fc.array(fault, { maxLength: 10, size: "max" }),
    fc.subarray([...FAULTS], { minLength: 1, maxLength: 2 }),
  ).map(([faults, kinds]) => faults.map((it, i) => ({ ...it, kind: kinds[i % kinds.length]! }))),
);

/** The scenarios. */
export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  seed: fc.noShrink(fc.nat()),
  latencyMs: fc.constantFrom(2, 10, 30),
  // A handler that hangs waits for a deploy, and its process does little until then.
  deployMs: fc.constantFrom(40_000, 40_000, 40_000, 120_000),
  handsOver: fc.boolean(),
  workers: fc.tuple(fc.array(worker, { minLength: 1, maxLength: 4, size: "max" }), fc.boolean())
    .map(([workers, cron]) => workers.map((it) => ({ ...it, cron }))),
  messages: fc.tuple(
    fc.array(message, { minLength: 0, maxLength: 20, size: "max" }),
    fc.constantFrom(1, 1, 100),
  ).map(([messages, speed]) => messages.map((it) => ({ ...it, ms: Math.floor(it.ms / speed) }))),
  tasks: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(task, { maxLength: 10, size: "max" }) },
  ),
  faults,
});
