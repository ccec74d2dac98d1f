// Messages a second in PostgreSQL with an empty handler, and how long one is on its way, beside
// graphile-worker and pg-boss.

import { resultOf } from "./_children.ts";
import { atLeast, atMost, type Goal, median, ms, type Part, rate, times } from "./_figures.ts";
import { peerVersion, takePeers } from "./_peers.ts";
import { leftOut, takePostgres } from "./_servers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

type Name = "ours" | "graphile" | "boss";
type Taken = Readonly<Partial<Record<Name, readonly Took[]>>>;

interface Measured {
  /** With the defaults, and tuned. */
  readonly results: readonly [Taken, Taken];
  /** Milliseconds from send to handler. */
  readonly latencies: Readonly<Record<"ours" | "graphile", readonly number[]>>;
}

const FEW = 2_000;
const MANY = 15_000;
const SINGLES = 50;
const LATENCY_GOAL = 1;
const TITLE = "In PostgreSQL, empty handler, a filled mailbox worked off";

/** Measures on Node, for which the peers are made. */
export async function mailboxPostgres(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  if ("missing" in peers) return leftOut(TITLE, peers.missing);
  const server = await takePostgres();
  if ("missing" in server) return leftOut(TITLE, server.missing);
  const args = [
    subject.entry("node"),
    subject.entry("node", "src/engines/postgres/mod"),
    peers.folder,
    server.url,
    ...[FEW, MANY, SINGLES].map(String),
  ];
  let measured: Measured;
  try {
    measured = await resultOf<Measured>("node", "mailbox_postgres.ts", args, { timeoutMs: 85_000 });
  } finally {
    await server[Symbol.asyncDispose]();
  }
  const [defaults, tuned] = measured.results;
  const ratio = (taken: Taken, peer: Name) => msOf(taken, peer) / msOf(taken, "ours");
  const row = (how: string, count: number, taken: Taken, peer: Name) => [
    how,
    peer === "boss" ? "pg-boss" : "graphile-worker",
    rate(count, msOf(taken, "ours")),
    rate(count, msOf(taken, peer)),
    times(ratio(taken, peer)),
  ];
  const ahead = "concurrency 24, 500 ahead";
  const table = [
    ["settings", "peer", "ours k/s", "peer k/s", "to peer"],
    row("defaults, concurrency 10", FEW, defaults, "graphile"),
    row(ahead, MANY, tuned, "graphile"),
    row(ahead, MANY, tuned, "boss"),
  ];
  const [ours, theirs] = [median(measured.latencies.ours), median(measured.latencies.graphile)];
  const goals: Goal[] = [
    atLeast("PostgreSQL, defaults, to graphile-worker", ratio(defaults, "graphile"), 3, times),
    atLeast("PostgreSQL, tuned, to graphile-worker", ratio(tuned, "graphile"), 1, times),
    atLeast("PostgreSQL, tuned, to pg-boss", ratio(tuned, "boss"), 1.5, times),
    atMost("PostgreSQL, send to handler, to graphile-worker", ours / theirs, LATENCY_GOAL, times),
  ];
  const notes = [
    `one message to an idle worker, from send to handler, median: ${ms(ours)} to ${ms(theirs)} ms`,
    `${await peerVersion("graphile-worker")}: tuned with a local queue of 500 and completions ` +
    "joined without delay, which was faster here than with one of 250 ms",
    `${await peerVersion(
      "pg-boss",
    )}: two workers with batches of 1,000, one call of the handler a ` +
    "batch, fetching again while batches are full",
  ];
  return { title: TITLE, table, goals, notes };
}

function msOf(taken: Taken, name: Name): number {
  return median(taken[name]?.map(({ ms }) => ms) ?? [NaN]);
}
