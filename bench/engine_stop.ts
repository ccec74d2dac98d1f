// Measures how long a worker takes to stop with a job of one second in flight, and with the server frozen meanwhile.
// Uses private servers, which it may freeze, and Node, for which the peers are made. For idle workers see
// `comparisons.ts`.

import { join } from "node:path";
import { hasBinary, missing, redis } from "../tests/engines/_servers.ts";
import { privateOptions } from "../tests/engines/postgres/_private.ts";
import { root } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, ms, type Part } from "./_figures.ts";
import { takePeers } from "./_peers.ts";
import type { Subject } from "./_subject.ts";

const JOB_MS = 1_000;
const DEADLINE_MS = 2_000;
const FROZEN_LIMIT_MS = 6_000;
const TITLE = "Stop with a message in flight";

const ENGINES = [
  {
    name: "Redis",
    engine: "redis",
    why: hasBinary(redis) ? false : missing(redis),
    peer: { name: "BullMQ", module: "bullmq" },
  },
  {
    name: "PostgreSQL",
    engine: "postgres",
    why: privateOptions.skip,
    peer: { name: "graphile-worker", module: "graphile_worker" },
  },
] as const;

/** Compares lastcall with one peer on each engine. */
export async function engineStop(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  const notes = [
    "from the stop request to the end of the worker on Node, with a message of 1 s in flight, and with the " +
    `server frozen as a message of 300 ms begins; the deadline of lastcall is ${DEADLINE_MS} ms; ` +
    `the benchmark abandons a stop without a deadline after ${FROZEN_LIMIT_MS} ms`,
  ];
  const table = [["engine", "worker", "1 s job, ms", "frozen, ms"]];
  const goals: Goal[] = [];
  const show = (value: number) => `${ms(value)} ms`;
  for (const { name, engine, why, peer } of ENGINES) {
    if (why !== false) {
      notes.push(`${name} left out: ${why}`);
      continue;
    }
    const [busy, frozen] = await measure(subject, engine, "lastcall");
    table.push([name, "lastcall", ms(busy), ms(frozen)]);
    goals.push(
      atMost(`stop on ${name}, 1 s job`, busy, JOB_MS * 1.02, show),
      atMost(`stop on ${name}, frozen`, frozen, DEADLINE_MS * 1.05, show),
    );
    if ("missing" in peers) {
      notes.push(`${peer.name} left out: ${peers.missing}`);
      continue;
    }
    table.push([
      name,
      peer.name,
      ...await measure(subject, engine, peer.module).then(
        (values) => values.map((it) => it < FROZEN_LIMIT_MS ? ms(it) : `over ${ms(it)}`),
        () => ["failed", "failed"],
      ),
    ]);
  }
  return { title: TITLE, table, goals, notes };
}

function measure(subject: Subject, engine: string, module: string): Promise<[number, number]> {
  const options = {
    engine,
    module,
    jobMs: JOB_MS,
    limitMs: FROZEN_LIMIT_MS,
    entry: subject.entry("node"),
    peers: join(root, "bench", "peers"),
    folder: subject.folder,
    settings: module === "lastcall" ? { shutdownTimeoutMs: DEADLINE_MS } : {},
  };
  return resultOf("node", "engine_stop.ts", [JSON.stringify(options)], { timeoutMs: 60_000 });
}
