// Messages a second on SQS with an empty handler, beside sqs-consumer on the same server.

import { noServer, SqsServer } from "../tests/engines/sqs/_server.ts";
import { resultOf } from "./_children.ts";
import { atLeast, type Goal, median, type Part, rate, times } from "./_figures.ts";
import { peerVersion, takePeers } from "./_peers.ts";
import { leftOut } from "./_servers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

interface Measured {
  readonly results: readonly Readonly<Record<"ours" | "peer", readonly Took[]>>[];
}

const SETTINGS = [
  { concurrency: 1, count: 100 },
  { concurrency: 10, count: 600 },
  { concurrency: 100, count: 1_500 },
] as const;
const GOAL = 1;
const TITLE = "On SQS, empty handler, a filled mailbox worked off";

/** Measures on every runtime. */
export async function mailboxSqs(subject: Subject): Promise<Part> {
  if (noServer) return leftOut(TITLE, noServer);
  const peers = await takePeers();
  if ("missing" in peers) return leftOut(TITLE, peers.missing);
  await using server = await SqsServer.start();
  const table = [[
    "runtime",
    "concurrency",
    "ours k/s",
    "sqs-consumer k/s",
    "to sqs-consumer",
    "by CPU",
  ]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const args = [
      subject.entry(runtime),
      subject.entry(runtime, "src/engines/sqs/mod"),
      peers.folder,
      server.endpoint,
      ...SETTINGS.flatMap(({ concurrency, count }) => [String(concurrency), String(count)]),
    ];
    const measured = await resultOf<Measured>(runtime, "mailbox_sqs.ts", args, {
      timeoutMs: 90_000,
    });
    for (const [index, { concurrency, count }] of SETTINGS.entries()) {
      const { ours, peer } = measured.results[index]!;
      const ratios = (["ms", "cpuMs"] as const).map((by) =>
        median(peer.map((took) => took[by])) / median(ours.map((took) => took[by]))
      );
      const rates = [ours, peer].map((all) => rate(count, median(all.map(({ ms }) => ms))));
      table.push([runtime, String(concurrency), ...rates, ...ratios.map(times)]);
      const what = `SQS on ${runtime}, concurrency ${concurrency}, to sqs-consumer`;
      goals.push(atLeast(what, ratios[0] ?? NaN, GOAL, times));
    }
  }
  const notes = [
    `${await peerVersion(
      "sqs-consumer",
    )}: whole batches handled and deleted at once, one consumer ` +
    "for every ten at a time; the server, fauxqs in one process, is a good part of each figure",
  ];
  return { title: TITLE, table, goals, notes };
}
