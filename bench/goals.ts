// The goals as data. Each is checked against the results of one comparison, on every runtime that has them.

/**
 * What is measured: the rate, the time, the CPU time, the share of the slower worker, or the time one worker is idle.
 */
export type Measure = "rate" | "ms" | "cpuMs" | "share" | "waitMs";

/** One goal. */
export interface Goal {
  readonly id: string;
  /** The heading under which it is listed. */
  readonly group: string;
  readonly what: string;
  /** The id of the comparison in `comparisons.ts`. */
  readonly comparison: string;
  readonly measure: Measure;
  /** The contender that must reach it. @default {"lastcall"} */
  readonly contender?: string;
  /** The peers, of which the best one counts. Without peers, the limit applies to the value itself. */
  readonly to?: readonly string[];
  readonly unit: "×" | "ms";
  readonly better: "higher" | "lower";
  readonly limit: number;
}

type Rest = Omit<Goal, "id" | "comparison" | "group">;

/** A goal for each of the comparisons with an engine. */
function each(
  group: string,
  engine: string,
  limits: Readonly<Record<number, number>>,
  to: readonly string[],
  suffix = "",
): Goal[] {
  return Object.entries(limits).map(([concurrency, limit]) => ({
    id: `${engine}_${concurrency}${suffix}`,
    group,
    what: suffix === "" ? `rate, concurrency ${concurrency}` : "CPU per message, concurrency 10",
    comparison: `${engine}_${concurrency}`,
    measure: suffix === "" ? "rate" : "cpuMs",
    to,
    unit: "×",
    better: suffix === "" ? "higher" : "lower",
    limit,
  }));
}

function one(id: string, group: string, rest: Rest, comparison = id): Goal {
  return { id, group, comparison, ...rest };
}

const RATIO = { unit: "×" } as const;
const ON_REDIS = ["BullMQ", "bee-queue", "groupmq"];
const ON_SQLITE = ["bunqueue", "plainjob", "plainjob, better-sqlite3"];
const CPU = { 10: 0.5 };

/** The sizes of the backlogs, which are the names of the contenders. */
export const BACKLOGS = ["1,000", "1,000,000"] as const;

/** The engines whose idle stop has a goal. */
export const STOPPED = ["memory", "sqlite", "redis", "postgres", "sqs", "denokv"] as const;

/** The engines that hold a backlog. */
export const BACKLOGGED = ["memory", "sqlite", "redis", "postgres", "nats", "denokv"] as const;

/** The engines whose messages two workers share. */
export const SHARED = ["sqlite", "redis", "postgres"] as const;

/** The display names of the engines. */
export const ENGINE_NAMES: Readonly<Record<string, string>> = {
  memory: "memory",
  sqlite: "SQLite",
  redis: "Redis",
  postgres: "PostgreSQL",
  nats: "NATS",
  sqs: "SQS",
  denokv: "Deno KV",
};

function shared(engine: string, concurrency: number): Goal[] {
  const group = "A handler of 50 ms";
  const name = `${ENGINE_NAMES[engine]}, concurrency ${concurrency}`;
  const comparison = `slow_${engine}_${concurrency}`;
  const to = ["prefetch 0"];
  const higher = { to, ...RATIO, better: "higher" } as const;
  return [
    one(
      comparison,
      group,
      { what: `${name}: rate`, measure: "rate", ...higher, limit: 0.95 },
    ),
    one(
      `${comparison}_share`,
      group,
      { what: `${name}: share of the slower worker`, measure: "share", ...higher, limit: 0.9 },
      comparison,
    ),
    one(
      `${comparison}_wait`,
      group,
      {
        what: `${name}: one worker idle while the other works`,
        measure: "waitMs",
        unit: "ms",
        better: "lower",
        limit: 100,
      },
      comparison,
    ),
  ];
}

/** All goals, in the order of the documentation. */
export const GOALS: readonly Goal[] = [
  ...each("Redis", "redis", { 1: 5, 10: 3, 100: 3 }, ["BullMQ", "bee-queue"]),
  ...each("Redis", "redis", CPU, ON_REDIS, "_cpu"),
  one("redis_latency", "Redis", {
    what: "send to handler, idle worker",
    measure: "ms",
    to: ["BullMQ"],
    ...RATIO,
    better: "lower",
    limit: 0.6,
  }),
  one("redis_latency_network", "Redis", {
    what: "send to handler, 2 ms round trip",
    measure: "ms",
    to: ["BullMQ"],
    ...RATIO,
    better: "lower",
    limit: 0.6,
  }),
  ...each("PostgreSQL", "postgres", { 1: 5, 10: 5, 100: 10 }, ["graphile-worker"]),
  one("postgres_tuned", "PostgreSQL", {
    what: "rate, concurrency 24",
    measure: "rate",
    to: ["graphile-worker, tuned"],
    ...RATIO,
    better: "higher",
    limit: 1.3,
  }),
  ...each("PostgreSQL", "postgres", CPU, ["graphile-worker"], "_cpu"),
  ...each("SQLite", "sqlite", { 1: 5, 10: 5, 100: 5 }, ON_SQLITE),
  ...each("SQLite", "sqlite", CPU, ON_SQLITE, "_cpu"),
  ...each("Memory", "memory", { 1: 0.7, 10: 1.2 }, ["fastq"]),
  ...each("SQS", "sqs", CPU, ["sqs-consumer"], "_cpu"),
  ...SHARED.flatMap((engine) => [...shared(engine, 1), ...shared(engine, 10)]),
  ...BACKLOGGED.map((engine) =>
    one(`backlog_${engine}`, "A backlog of 1,000,000", {
      what: `${ENGINE_NAMES[engine]}: cost of a message`,
      measure: "ms",
      contender: BACKLOGS[1],
      to: [BACKLOGS[0]],
      ...RATIO,
      better: "lower",
      limit: 1.5,
    })
  ),
  ...STOPPED.map((engine) =>
    one(`stop_${engine}`, "Stop of an idle worker", {
      what: ENGINE_NAMES[engine]!,
      measure: "ms",
      unit: "ms",
      better: "lower",
      limit: 10,
    })
  ),
];
