// What a message costs on a server while a thousand, or half a million, wait behind it.

import postgres from "postgres";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, type Part, times } from "./_figures.ts";
import { type BenchServer, leftOut, takePostgres, takeRedis } from "./_servers.ts";
import type { Subject } from "./_subject.ts";

interface Measured {
  /** Microseconds a message, by size. */
  readonly sends: readonly number[];
  /** The same, by size and then by batch. */
  readonly takes: readonly (readonly number[])[];
}

const SIZES = [1_000, 500_000] as const;
const BATCHES = [10, 100] as const;
const GOES = 12;
const GOAL = 1.5;

/** Messages on Redis. */
export async function backlogRedis(subject: Subject): Promise<Part> {
  const title = "A backlog on Redis, node";
  const server = await takeRedis();
  if ("missing" in server) return leftOut(title, server.missing);
  try {
    return { title, ...await measure(subject, "Redis", "redis", server, "") };
  } finally {
    await server[Symbol.asyncDispose]();
  }
}

/** Messages in PostgreSQL. */
export async function backlogPostgres(subject: Subject): Promise<Part> {
  const title = "A backlog in PostgreSQL, node";
  const server = await takePostgres();
  if ("missing" in server) return leftOut(title, server.missing);
  const schema = `bench_backlog_${crypto.randomUUID().slice(0, 8)}`;
  try {
    return { title, ...await measure(subject, "PostgreSQL", "postgres", server, schema) };
  } finally {
    const sql = postgres(server.url, { max: 1, onnotice() {} });
    await sql.unsafe(`drop schema if exists "${schema}" cascade`);
    await sql.end();
    await server[Symbol.asyncDispose]();
  }
}

async function measure(
  subject: Subject,
  name: string,
  engine: "redis" | "postgres",
  { url }: BenchServer,
  schema: string,
): Promise<Omit<Part, "title">> {
  const entry = subject.entry("node", `src/engines/${engine}/mod`);
  const numbers = [GOES, ...SIZES, ...BATCHES].map(String);
  const { sends, takes } = await resultOf<Measured>(
    "node",
    "backlog_server.ts",
    [entry, engine, url, schema, ...numbers],
    { timeoutMs: 85_000 },
  );
  const table = [[
    "backlog",
    ...BATCHES.flatMap((batch) => [`by ${batch}, µs`, `to ${SIZES[0]}`]),
    "send, µs",
    `to ${SIZES[0]}`,
  ]];
  for (const [i, size] of SIZES.entries()) {
    const costs = [...takes[i]!, sends[i]!];
    const few = [...takes[0]!, sends[0]!];
    const cells = costs.flatMap((cost, n) => [cost.toFixed(1), times(cost / few[n]!)]);
    table.push([String(size), ...cells]);
  }
  const goals: Goal[] = BATCHES.map((batch, n) => {
    const growth = takes[1]![n]! / takes[0]![n]!;
    return atMost(
      `${name}, batches of ${batch}, half a million to a thousand`,
      growth,
      GOAL,
      times,
    );
  });
  goals.push(
    atMost(`${name}, sent, half a million to a thousand`, sends[1]! / sends[0]!, GOAL, times),
  );
  const notes = [
    "received and acknowledged one after another, as many sent again in one call, µs a message, " +
    "both mailboxes on the same server in turn",
  ];
  return { table, goals, notes };
}
