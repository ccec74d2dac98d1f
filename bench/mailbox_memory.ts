// Messages a second in memory with an empty handler, beside queues that only call functions: no lease,
// no receipt, no second attempt.

import { resultOf } from "./_children.ts";
import { atLeast, type Goal, median, type Part, rate, times } from "./_figures.ts";
import { peerVersion, takePeers } from "./_peers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

type Contender = "worked" | "sentManyAndWorked" | "sentAndWorked" | "fastq" | "pQueue";
type Measured = Readonly<Partial<Record<Contender, readonly Took[]>>>;
type Typical = Readonly<Partial<Record<Contender, Took>>>;

const SETTINGS = [
  { name: "1", concurrency: 1, prefetch: 0 },
  { name: "10", concurrency: 10, prefetch: 0 },
  { name: "100", concurrency: 100, prefetch: 0 },
  { name: "1, prefetch 99", concurrency: 1, prefetch: 99 },
] as const;

const COUNT = 20_000;
const ROUNDS = 7;
const GOAL_FASTQ = 0.5;
const GOAL_P_QUEUE = 5;

/** What is measured of ours. */
const OURS = [
  ["worked", "worked off"],
  ["sentManyAndWorked", "sendMany, worked off"],
  ["sentAndWorked", "send each, worked off"],
] as const;

/** Measures on every runtime. */
export async function mailboxMemory(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  const folder = "folder" in peers ? peers.folder : "";
  const table = [["runtime", "concurrency", "what", "k/s", "CPU µs", "to fastq", "to p-queue"]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const settings = SETTINGS.map(({ concurrency, prefetch }) => `${concurrency}+${prefetch}`);
    const args = [subject.entry(runtime), folder, String(COUNT), String(ROUNDS), ...settings];
    const results = await resultOf<Measured[]>(runtime, "mailbox_memory.ts", args, {
      timeoutMs: 30_000,
    });
    for (const [index, { name }] of SETTINGS.entries()) {
      const typical = typicalTimes(results[index] ?? {});
      for (const [key, what] of [...OURS, ["fastq", "fastq"], ["pQueue", "p-queue"]] as const) {
        const took = typical[key];
        if (took === undefined) continue;
        const ratios = (["fastq", "pQueue"] as const).map((peer) => ratio(typical, peer, key));
        const cost = (took.cpuMs * 1_000 / COUNT).toFixed(2);
        table.push([runtime, name, what, rate(COUNT, took.ms), cost, ...ratios.map(show)]);
      }
    }
    if (folder !== "") goals.push(...goalsOf(runtime, results.map(typicalTimes)));
  }
  return { title: "In memory, empty handler", table, goals, notes: await notes(peers) };
}

function typicalTimes(measured: Measured): Typical {
  return Object.fromEntries(
    Object.entries(measured).map(([name, rounds]) => [name, {
      ms: median(rounds.map(({ ms }) => ms)),
      cpuMs: median(rounds.map(({ cpuMs }) => cpuMs)),
    }]),
  );
}

/** How many times as fast as the peer, by CPU time: the rates depend on what else the machine does. */
function ratio(typical: Typical, peer: Contender, key: Contender): number {
  return (typical[peer]?.cpuMs ?? NaN) / (typical[key]?.cpuMs ?? NaN);
}

/** The worst setting decides. */
function goalsOf(runtime: string, typical: readonly Typical[]): Goal[] {
  const peers = [["fastq", "fastq", GOAL_FASTQ], ["pQueue", "p-queue", GOAL_P_QUEUE]] as const;
  return peers.flatMap(([peer, peerName, limit]) =>
    (["worked", "sentAndWorked"] as const).map((key) => {
      const worst = SETTINGS.map(({ name }, i) => ({
        name,
        is: ratio(typical[i] ?? {}, peer, key),
      }))
        .reduce((a, b) => b.is < a.is ? b : a);
      const what = OURS.find(([name]) => name === key)?.[1];
      const goal = `memory on ${runtime}, ${what}, concurrency ${worst.name}, to ${peerName}`;
      return atLeast(goal, worst.is, limit, times);
    })
  );
}

function show(ratio: number): string {
  return Number.isNaN(ratio) ? "" : times(ratio);
}

async function notes(peers: Awaited<ReturnType<typeof takePeers>>): Promise<string[]> {
  const ours =
    "worked off: a filled mailbox, from the start of the loop until it has stopped, all " +
    "acknowledged; leases and all options by default";
  if ("missing" in peers) return [ours, `fastq and p-queue left out: ${peers.missing}`];
  const versions = await Promise.all(["fastq", "p-queue"].map(peerVersion));
  return [
    ours,
    `${versions.join(", ")}: from the first push until all is worked off`,
    "ratios are of CPU time, which other processes do not disturb; the worst concurrency is held to the goal",
  ];
}
