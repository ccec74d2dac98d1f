// Messages a second in a SQLite file with an empty handler, beside plainjob on the same driver.

import type { RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atLeast, type Goal, median, type Part, rate, times } from "./_figures.ts";
import { ownNodeWithBetterSqlite3, peerVersion, takePeers } from "./_peers.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

interface Host {
  readonly runtime: RuntimeName;
  readonly name: string;
  readonly driver: string;
  readonly program?: string;
}

interface Measured {
  readonly pragmas: { readonly ours: string; readonly plainjob: string };
  readonly results: readonly {
    readonly ours: readonly Took[];
    readonly plainjob: readonly Took[];
  }[];
}

const CONCURRENCY = [10, 100] as const;
const COUNT = 5_000;
const ROUNDS = 4;
const GOAL = 3;
const HOSTS: readonly Host[] = [
  { runtime: "node", name: "node", driver: "node:sqlite" },
  { runtime: "bun", name: "bun", driver: "bun:sqlite" },
  { runtime: "deno", name: "deno", driver: "node:sqlite" },
];

/** Measures on every runtime, and on the machine's own Node where that can have better-sqlite3. */
export async function mailboxSqlite(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  if ("missing" in peers) {
    return { title: TITLE, table: [], goals: [], notes: [`left out: ${peers.missing}`] };
  }
  const own = await ownNodeWithBetterSqlite3();
  const hosts = "program" in own
    ? [...HOSTS, {
      runtime: "node" as const,
      name: `node ${own.version}`,
      driver: "better-sqlite3",
      program: own.program,
    }]
    : HOSTS;

  const table = [[
    "runtime",
    "driver",
    "concurrency",
    "ours k/s",
    "plainjob k/s",
    "to plainjob",
    "by CPU",
  ]];
  const goals: Goal[] = [];
  const pragmas = new Set<string>();
  for (const host of hosts) {
    const measured = await measure(subject, peers.folder, host);
    pragmas.add(`ours: ${measured.pragmas.ours}; plainjob: ${measured.pragmas.plainjob}`);
    for (const [index, concurrency] of CONCURRENCY.entries()) {
      const { ours = [], plainjob = [] } = measured.results[index] ?? {};
      const ratios = (["ms", "cpuMs"] as const).map((by) =>
        median(plainjob.map((took) => took[by])) / median(ours.map((took) => took[by]))
      );
      const rates = [ours, plainjob].map((all) => rate(COUNT, median(all.map(({ ms }) => ms))));
      const { name, driver } = host;
      table.push([name, driver, String(concurrency), ...rates, ...ratios.map(times)]);
      const goal = `SQLite on ${name}, concurrency ${concurrency}, to plainjob`;
      goals.push(atLeast(goal, ratios[0] ?? NaN, GOAL, times));
    }
  }
  const notes = [
    ...pragmas,
    `${await peerVersion(
      "plainjob",
    )}: as many workers as the concurrency, no log; on node:sqlite ` +
    "through an adapter of ours, since it knows bun:sqlite and better-sqlite3 only",
  ];
  if ("missing" in own) notes.push(`better-sqlite3 left out: ${own.missing}`);
  return { title: TITLE, table, goals, notes };
}

const TITLE = "In a SQLite file, empty handler, a filled mailbox worked off";

function measure(subject: Subject, peers: string, host: Host): Promise<Measured> {
  const { runtime, driver, program } = host;
  const args = [
    subject.entry(runtime),
    subject.entry(runtime, "src/engines/sqlite/mod"),
    peers,
    subject.folder,
    driver,
    String(COUNT),
    String(ROUNDS),
    ...CONCURRENCY.map(String),
  ];
  return resultOf<Measured>(runtime, "mailbox_sqlite.mjs", args, {
    timeoutMs: 30_000,
    ...(program === undefined ? {} : { program }),
  });
}
