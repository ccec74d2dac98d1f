// Messages a second on NATS JetStream with an empty handler, beside a bare loop of its own client.

import { findServer, missing, nats } from "../tests/engines/_servers.ts";
import { resultOf } from "./_children.ts";
import { atLeast, type Goal, median, type Part, rate, times } from "./_figures.ts";
import { leftOut } from "./_servers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

interface Measured {
  readonly results: readonly Readonly<Record<"ours" | "bare", readonly Took[]>>[];
}

const SETTINGS = [
  { concurrency: 1, count: 500 },
  { concurrency: 10, count: 3_000 },
  { concurrency: 100, count: 10_000 },
] as const;
const GOAL = 0.8;
const TITLE = "On NATS JetStream, empty handler, a filled mailbox worked off";

/** Measures on every runtime. */
export async function mailboxNats(subject: Subject): Promise<Part> {
  const server = await findServer(nats);
  if (server === undefined) return leftOut(TITLE, missing(nats));
  const table = [["runtime", "concurrency", "ours k/s", "client k/s", "to the client", "by CPU"]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const args = [
      subject.entry(runtime),
      subject.entry(runtime, "src/engines/nats/mod"),
      server.url,
      ...SETTINGS.flatMap(({ concurrency, count }) => [String(concurrency), String(count)]),
    ];
    const measured = await resultOf<Measured>(runtime, "mailbox_nats.ts", args, {
      timeoutMs: 90_000,
    });
    for (const [index, { concurrency, count }] of SETTINGS.entries()) {
      const { ours, bare } = measured.results[index]!;
      const ratios = (["ms", "cpuMs"] as const).map((by) =>
        median(bare.map((took) => took[by])) / median(ours.map((took) => took[by]))
      );
      const rates = [ours, bare].map((all) => rate(count, median(all.map(({ ms }) => ms))));
      table.push([runtime, String(concurrency), ...rates, ...ratios.map(times)]);
      const what = `NATS on ${runtime}, concurrency ${concurrency}, to the bare client`;
      goals.push(atLeast(what, ratios[0] ?? NaN, GOAL, times));
    }
  }
  const notes = [
    "the client fetches as many as the concurrency, parses them and acknowledges without an answer; " +
    "ours has every acknowledgement confirmed",
  ];
  return { title: TITLE, table, goals, notes };
}
