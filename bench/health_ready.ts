// What a readiness probe costs a program, compared with lightship and terminus.

import { resultOf } from "./_children.ts";
import { atMost, median, type Part, times } from "./_figures.ts";
import { takePeers } from "./_peers.ts";
import type { Subject } from "./_subject.ts";

interface Took {
  readonly ms: number;
  readonly cpuMs: number;
}

const COUNT = 2_000;
const ROUNDS = 15;
const PEERS = ["lightship", "terminus"] as const;

/** Probes all three in turn, in one process. */
export async function healthReady(subject: Subject): Promise<Part> {
  const title = "/health/ready, beside lightship and terminus on Node";
  const peers = await takePeers();
  if ("missing" in peers) return { title, table: [], goals: [], notes: [peers.missing] };
  const args = [subject.entry("node"), peers.folder, String(COUNT), String(ROUNDS)];
  const took = await resultOf<Readonly<Record<"lastcall" | typeof PEERS[number], readonly Took[]>>>(
    "node",
    "health_ready.ts",
    args,
    { timeoutMs: 90_000 },
  );
  const ratio = (peer: typeof PEERS[number], of: (took: Took) => number) =>
    median(took.lastcall.map((own, round) => of(own) / of(took[peer][round]!)));
  const each = (name: keyof typeof took) =>
    (median(took[name].map(({ cpuMs }) => cpuMs)) / COUNT * 1_000).toFixed(1);
  return {
    title,
    table: [
      ["package", "µs CPU each", "lastcall to peer, CPU", "by time"],
      ["lastcall", each("lastcall"), "", ""],
      ...PEERS.map((peer) => [
        peer,
        each(peer),
        times(ratio(peer, ({ cpuMs }) => cpuMs)),
        times(ratio(peer, ({ ms }) => ms)),
      ]),
    ],
    goals: PEERS.map((peer) =>
      atMost(`/health/ready, CPU to ${peer},`, ratio(peer, ({ cpuMs }) => cpuMs), 1, times)
    ),
  };
}
