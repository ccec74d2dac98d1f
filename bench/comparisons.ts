// The comparisons as data: the contenders of each engine, and the tasks that they perform in turn.

import type { RuntimeName } from "../tools/runtimes.ts";
import type { Task } from "./fixtures/contender.ts";
import { BACKLOGGED, BACKLOGS, ENGINE_NAMES, SHARED, STOPPED } from "./goals.ts";

/** One side of a comparison. */
export interface ContenderPlan {
  readonly name: string;
  /** Its module in `fixtures/contenders/`. */
  readonly module: string;
  /** The settings that differ from the defaults. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** The runtimes that it supports. @default {all} */
  readonly runtimes?: readonly RuntimeName[];
  /** True if it runs on the machine's own Node, for which addons can be compiled. */
  readonly ownNode?: boolean;
  /** The npm package of a peer. */
  readonly package?: string;
}

/** A task that contenders perform in turn. */
export interface Comparison extends Task {
  readonly id: string;
  readonly title: string;
  readonly contenders: readonly string[];
  /** @default {7} */
  readonly rounds?: number;
}

/** Contenders on one engine. */
export interface Group {
  readonly engine: string;
  readonly contenders: readonly ContenderPlan[];
  readonly comparisons: readonly Comparison[];
  /** The runtimes to measure. @default {all} */
  readonly runtimes?: readonly RuntimeName[];
  /** The delay of the network between the contenders and the server, in each direction. @default {0} */
  readonly networkMs?: number;
  /** True if the messages stay for the next runtime. */
  readonly keepsMessages?: boolean;
}

/** A part of the benchmarks. */
export interface ComparisonPart {
  readonly title: string;
  /** Notes that explain the results. */
  readonly notes: readonly string[];
  readonly groups: readonly Group[];
}

const OURS: ContenderPlan = { name: "lastcall", module: "lastcall" };

/**
 * Contenders empty a filled queue with an empty handler. The counts make each turn last at least 0.1 s: a garbage
 * collection or a compilation would dominate a shorter one.
 */
function drains(
  engine: string,
  contenders: readonly string[],
  counts: Readonly<Record<number, number>>,
): Comparison[] {
  return Object.entries(counts).map(([concurrency, count]) => ({
    id: `${engine}_${concurrency}`,
    title: `concurrency ${concurrency}`,
    task: "drain",
    concurrency: Number(concurrency),
    count,
    contenders,
  }));
}

function peer(name: string, module: string, rest: Partial<ContenderPlan> = {}): ContenderPlan {
  return { name, module, package: name.toLowerCase(), ...rest };
}

/** The tuning from graphile-worker's documentation, with completions batched without a delay, which is faster. */
const GRAPHILE_TUNED = {
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
/** Two workers that take 1,000 jobs at once, without a pause while there are more. */
const BOSS_TUNED = { batchSize: 1_000, localConcurrency: 2, burstWhenBatchFull: true };

const DRAINED =
  "Workers empty a filled queue with an empty handler. The table shows thousands of messages per second, with " +
  "the lowest and the highest round in parentheses, and the CPU time of the worker process per message.";

/** The parts whose goals are in `goals.ts`. */
export const COMPARISONS: Readonly<Record<string, ComparisonPart>> = {
  redis: {
    title: "Redis",
    notes: [
      DRAINED,
      "All packages use their defaults, except for `removeOnComplete` of BullMQ and `removeOnSuccess` of bee-queue: completed jobs are removed, as with lastcall and groupmq. groupmq handles the messages of a group one after another, so there are as many groups as messages in flight.",
      "Send to handler: single messages to an idle worker. The median of each round, in milliseconds. For the 2 ms round trip, a proxy delays all data by 1 ms in each direction.",
    ],
    groups: [{
      engine: "redis",
      contenders: [
        OURS,
        peer("BullMQ", "bullmq"),
        peer("bee-queue", "bee_queue"),
        peer("groupmq", "groupmq"),
      ],
      comparisons: [
        ...drains("redis", ["lastcall", "BullMQ", "bee-queue", "groupmq"], {
          1: 5_000,
          10: 10_000,
          100: 15_000,
        }),
        {
          id: "redis_latency",
          title: "send to handler, idle worker",
          task: "latency",
          count: 150,
          contenders: ["lastcall", "BullMQ", "bee-queue"],
        },
      ],
    }, {
      engine: "redis",
      networkMs: 1,
      contenders: [OURS, peer("BullMQ", "bullmq"), peer("bee-queue", "bee_queue")],
      comparisons: [{
        id: "redis_latency_network",
        title: "send to handler, 2 ms round trip",
        task: "latency",
        count: 50,
        pauseMs: 20,
        contenders: ["lastcall", "BullMQ", "bee-queue"],
      }],
    }],
  },
  postgres: {
    title: "PostgreSQL",
    notes: [
      DRAINED,
      "The tuned graphile-worker has a local queue of 500 and batches completions without a delay. The tuned pg-boss has two workers that take 1,000 jobs at once, without a pause between batches; with its defaults it takes one job every two seconds. The server has its default settings.",
      "Send to handler: single messages to an idle worker. The median of each round, in milliseconds.",
    ],
    groups: [{
      engine: "postgres",
      contenders: [
        OURS,
        { ...OURS, name: "lastcall, prefetch 500", settings: { prefetch: 500 } },
        peer("graphile-worker", "graphile_worker"),
        peer("graphile-worker, tuned", "graphile_worker", {
          package: "graphile-worker",
          settings: GRAPHILE_TUNED,
        }),
        peer("pg-boss, tuned", "pg_boss", { package: "pg-boss", settings: BOSS_TUNED }),
      ],
      comparisons: [
        ...drains("postgres", ["lastcall", "graphile-worker"], { 1: 2_000, 10: 4_000, 100: 6_000 }),
        {
          id: "postgres_tuned",
          title: "concurrency 24",
          task: "drain",
          concurrency: 24,
          count: 8_000,
          contenders: [
            "lastcall",
            "lastcall, prefetch 500",
            "graphile-worker, tuned",
            "pg-boss, tuned",
          ],
        },
        {
          id: "postgres_latency",
          title: "send to handler, idle worker",
          task: "latency",
          count: 100,
          contenders: ["lastcall", "graphile-worker"],
        },
      ],
    }],
  },
  sqlite: {
    title: "SQLite",
    notes: [
      DRAINED,
      "plainjob has as many workers as the concurrency. It supports bun:sqlite and better-sqlite3; on node:sqlite it uses an adapter from the benchmarks. bunqueue runs embedded with a file, on Bun only.",
    ],
    groups: [{
      engine: "sqlite",
      contenders: [
        OURS,
        peer("plainjob", "plainjob"),
        peer("plainjob, better-sqlite3", "plainjob", {
          package: "plainjob",
          settings: { driver: "better-sqlite3" },
          runtimes: ["node"],
          ownNode: true,
        }),
        peer("bunqueue", "bunqueue", { runtimes: ["bun"] }),
      ],
      comparisons: drains("sqlite", [
        "lastcall",
        "plainjob",
        "plainjob, better-sqlite3",
        "bunqueue",
      ], {
        1: 8_000,
        10: 10_000,
        100: 12_000,
      }),
    }],
  },
  memory: {
    title: "Memory",
    notes: [
      DRAINED,
      "The time includes sending, because fastq starts to work with the first `push`. lastcall sends with `sendMany`; `lastcall, sent before` sends before the clock starts. fastq calls a function, without leases, attempts or receipt handles.",
    ],
    groups: [{
      engine: "memory",
      contenders: [
        { ...OURS, settings: { sends: true } },
        { ...OURS, name: "lastcall, sent before" },
        peer("fastq", "fastq"),
      ],
      comparisons: drains("memory", ["lastcall", "lastcall, sent before", "fastq"], {
        1: 200_000,
        10: 200_000,
        100: 200_000,
      }),
    }],
  },
  sqs: {
    title: "SQS",
    notes: [
      DRAINED,
      "The server is fauxqs, whose single process accounts for a large part of each result. sqs-consumer handles and deletes whole batches, with one consumer for every ten messages in flight.",
    ],
    groups: [{
      engine: "sqs",
      // An aborted poll of either contender still takes messages for a while.
      contenders: [
        { ...OURS, settings: { freshQueues: true } },
        peer("sqs-consumer", "sqs_consumer"),
      ],
      comparisons: drains("sqs", ["lastcall", "sqs-consumer"], { 1: 150, 10: 1_500, 100: 2_000 }),
    }],
  },
  nats: {
    title: "NATS",
    notes: [
      DRAINED,
      "The bare client fetches as many messages as the concurrency, parses them, and acknowledges them without waiting for an answer; lastcall waits until every acknowledgement is confirmed.",
    ],
    groups: [{
      engine: "nats",
      contenders: [OURS, { name: "bare client", module: "nats_client" }],
      comparisons: drains("nats", ["lastcall", "bare client"], { 1: 1_000, 10: 3_000, 100: 6_000 }),
    }],
  },
  slow_handler: {
    title: "A handler of 50 ms, two workers",
    notes: [
      "Two workers share one mailbox, with the default prefetch and with `prefetch: 0`. The goals cover the rate, how evenly the workers share the messages, and how long one worker is idle while the other still works.",
    ],
    groups: SHARED.map((engine) => ({
      engine,
      contenders: [OURS, { ...OURS, name: "prefetch 0", settings: { prefetch: 0 } }],
      comparisons: ([[1, 16], [10, 160]] as const).map(([concurrency, count]) => ({
        id: `slow_${engine}_${concurrency}`,
        title: `${ENGINE_NAMES[engine]}, concurrency ${concurrency}`,
        task: "shared" as const,
        concurrency,
        count,
        handlerMs: 50,
        contenders: ["lastcall", "prefetch 0"],
        rounds: 5,
      })),
    })),
  },
  backlog: {
    title: "A backlog",
    notes: [
      "A process receives, acknowledges and sends again batches of 10 while 1,000 or 1,000,000 messages wait. The table shows thousands of messages per second and the CPU time of the process per message, garbage collection included. SQS is missing: the server of the benchmarks, not the service, would be measured.",
    ],
    groups: BACKLOGGED.map((engine) => ({
      engine,
      contenders: BACKLOGS.map((name) => ({
        ...OURS,
        name,
        settings: { size: Number(name.replaceAll(",", "")) },
      })),
      comparisons: [{
        id: `backlog_${engine}`,
        title: ENGINE_NAMES[engine]!,
        task: "steady" as const,
        count: engine === "memory" ? 100_000 : engine === "sqlite" ? 5_000 : 500,
        contenders: BACKLOGS,
        rounds: 9,
      }],
      keepsMessages: true,
      ...(["memory", "sqlite"].includes(engine)
        ? {}
        : { runtimes: [engine === "denokv" ? "deno" : "node"] as const }),
    })),
  },
  idle_stop: {
    title: "Stop of an idle worker",
    notes: [
      "The time from the call of `shutdown` or `close` to its end, in milliseconds.",
    ],
    groups: STOPPED.map((engine) => ({
      engine,
      contenders: [
        OURS,
        ...(engine === "redis" ? [peer("BullMQ", "bullmq"), peer("bee-queue", "bee_queue")] : []),
        ...(engine === "postgres" ? [peer("graphile-worker", "graphile_worker")] : []),
      ],
      comparisons: [{
        id: `stop_${engine}`,
        title: ENGINE_NAMES[engine]!,
        task: "stop" as const,
        count: 1,
        contenders: ["lastcall", "BullMQ", "bee-queue", "graphile-worker"],
        rounds: 9,
      }],
      ...(engine === "denokv" ? { runtimes: ["deno"] as const } : {}),
    })),
  },
};
