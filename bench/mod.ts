// The benchmarks: all of them, or those named as arguments, one after another.
//
// Nothing here fails because of time: the last table says which goals were met on this machine, now.

import process from "node:process";
import { backlogMemory, backlogSqlite } from "./backlog.ts";
import { backlogPostgres, backlogRedis } from "./backlog_server.ts";
import { coordination } from "./coordination.ts";
import { engineStop } from "./engine_stop.ts";
import { format, type Part, summary } from "./_figures.ts";
import { type Subject, takeSubject } from "./_subject.ts";
import { healthReady } from "./health_ready.ts";
import { importTime } from "./import_time.ts";
import { mailboxMemory } from "./mailbox_memory.ts";
import { mailboxNats } from "./mailbox_nats.ts";
import { mailboxPostgres } from "./mailbox_postgres.ts";
import { mailboxRedis } from "./mailbox_redis.ts";
import { mailboxSqlite } from "./mailbox_sqlite.ts";
import { mailboxSqs } from "./mailbox_sqs.ts";
import { manyLeases } from "./many_leases.ts";
import { manyLoops } from "./many_loops.ts";
import { messagesSqlite } from "./messages_sqlite.ts";
import { serviceOverhead } from "./service_overhead.ts";
import { size } from "./size.ts";
import { status } from "./status.ts";
import { stopLatency } from "./stop_latency.ts";

const parts: Readonly<Record<string, (subject: Subject) => Promise<Part>>> = {
  stop_latency: stopLatency,
  many_loops: manyLoops,
  size,
  import_time: importTime,
  mailbox_memory: mailboxMemory,
  mailbox_sqlite: mailboxSqlite,
  mailbox_redis: mailboxRedis,
  mailbox_postgres: mailboxPostgres,
  mailbox_nats: mailboxNats,
  mailbox_sqs: mailboxSqs,
  engine_stop: engineStop,
  backlog_memory: backlogMemory,
  backlog_sqlite: backlogSqlite,
  backlog_redis: backlogRedis,
  backlog_postgres: backlogPostgres,
  messages_sqlite: messagesSqlite,
  many_leases: manyLeases,
  service_overhead: serviceOverhead,
  health_ready: healthReady,
  status,
  coordination,
};

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts);
const unknown = names.filter((name) => !(name in parts));
if (unknown.length > 0) {
  console.error(`No part ${unknown.join(", ")}: there are ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}

const began = performance.now();
const subject = await takeSubject();
try {
  const results: Part[] = [];
  for (const name of names) {
    try {
      const partBegan = performance.now();
      const result = await parts[name]!(subject);
      results.push(result);
      console.log(`${format(result)}\n  ${seconds(partBegan)}`);
    } catch (error) {
      // What cannot be measured is a finding as well, and no reason to leave out the others.
      console.error(`\n${name} could not be measured:`, error);
      process.exitCode = 1;
    }
  }
  console.log(summary(results));
  console.log(`  ${seconds(began)} in all`);
} finally {
  await subject.dispose();
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(0)} s`;
}
