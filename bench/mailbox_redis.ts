// Messages a second on Redis with an empty handler, and how long one is on its way, beside BullMQ.

import { resultOf } from "./_children.ts";
import { atLeast, atMost, type Goal, median, ms, type Part, rate, times } from "./_figures.ts";
import { peerVersion, takePeers } from "./_peers.ts";
import { leftOut, takeRedis } from "./_servers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

interface Measured {
  readonly results: readonly Readonly<Record<"ours" | "peer", readonly Took[]>>[];
  /** Milliseconds from send to handler. */
  readonly latencies: Readonly<Record<"ours" | "peer", readonly number[]>>;
}

/** The many first: by the time it comes to one after another, all code is compiled. */
const SETTINGS = [
  { concurrency: 100, count: 10_000, goal: 5 },
  { concurrency: 10, count: 4_000, goal: 3 },
  { concurrency: 1, count: 1_500, goal: 1.5 },
] as const;
const SINGLES = 120;
const LATENCY_GOAL = 0.5;
const TITLE = "On Redis, empty handler, a filled mailbox worked off";

/** Measures on every runtime. */
export async function mailboxRedis(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  if ("missing" in peers) return leftOut(TITLE, peers.missing);
  const server = await takeRedis();
  if ("missing" in server) return leftOut(TITLE, server.missing);
  const table = [["runtime", "concurrency", "ours k/s", "BullMQ k/s", "to BullMQ", "by CPU"]];
  const latencies = [];
  const goals: Goal[] = [];
  try {
    for (const runtime of ["node", "bun", "deno"] as const) {
      const args = [
        subject.entry(runtime),
        subject.entry(runtime, "src/engines/redis/mod"),
        peers.folder,
        server.url,
        String(SINGLES),
        ...SETTINGS.flatMap(({ concurrency, count }) => [String(concurrency), String(count)]),
      ];
      const measured = await resultOf<Measured>(runtime, "mailbox_redis.ts", args, {
        timeoutMs: 80_000,
      });
      for (const [index, { concurrency, count, goal }] of SETTINGS.entries()) {
        const { ours, peer } = measured.results[index]!;
        const ratios = (["ms", "cpuMs"] as const).map((by) =>
          median(peer.map((took) => took[by])) / median(ours.map((took) => took[by]))
        );
        const rates = [ours, peer].map((all) => rate(count, median(all.map(({ ms }) => ms))));
        table.push([runtime, String(concurrency), ...rates, ...ratios.map(times)]);
        const what = `Redis on ${runtime}, concurrency ${concurrency}, to BullMQ`;
        goals.push(atLeast(what, ratios[0] ?? NaN, goal, times));
      }
      const [ours, peer] = [median(measured.latencies.ours), median(measured.latencies.peer)];
      latencies.push(`${runtime} ${ms(ours)} to ${ms(peer)} ms (${times(ours / peer)})`);
      const what = `Redis on ${runtime}, send to handler, to BullMQ`;
      goals.push(atMost(what, ours / peer, LATENCY_GOAL, times));
    }
  } finally {
    await server[Symbol.asyncDispose]();
  }
  const notes = [
    `one message to an idle worker, from send to handler, median: ${latencies.join(", ")}`,
    `${await peerVersion("bullmq")}: defaults but for removeOnComplete, on the same server`,
  ];
  return { title: TITLE, table, goals, notes };
}
