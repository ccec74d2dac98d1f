// Interleaved rounds: in each round all contenders perform the same task, one at a time and in random order, each in
// its own process. The first turn of each contender is a warm-up and is not counted.

import { join } from "node:path";
import { root, type RuntimeName } from "../tools/runtimes.ts";
import { type ContenderProcess, startContender } from "./_children.ts";
import { takeOwnNode } from "./_own_node.ts";
import type { Comparison, ContenderPlan, Group } from "./comparisons.ts";
import type { Opening } from "./fixtures/_contender.ts";
import type { Figure, Measured } from "./results.ts";
import { rounds } from "./_rounds.ts";
import { behindNetwork } from "./_network.ts";
import { type BenchServer, mailboxUrl, takeServer } from "./_servers.ts";
import type { Subject } from "./_subject.ts";

const ROUNDS = 7;
const RUNTIMES = ["node", "bun", "deno"] as const;
/** A comparison that takes longer ends with the rounds it has. */
const LIMIT_MS = 20_000;

/** The results of a group. */
export interface GroupResult {
  readonly figures: readonly Figure[];
  /** The version of the server. */
  readonly server?: string;
  readonly missing?: string;
}

/** Measures the comparisons of a group on every runtime. */
export async function compareGroup(subject: Subject, group: Group): Promise<GroupResult> {
  const own = await takeServer(group.engine);
  if ("missing" in own) return { figures: [], missing: `${group.engine}: ${own.missing}` };
  const { networkMs = 0 } = group;
  const server = networkMs > 0 ? await behindNetwork(own, networkMs) : own;
  try {
    const figures: Figure[] = [];
    for (const runtime of group.runtimes ?? RUNTIMES) {
      figures.push(...await compareOn(runtime, subject, group, server));
    }
    return { figures, ...(server.version === undefined ? {} : { server: server.version }) };
  } finally {
    await server[Symbol.asyncDispose]();
  }
}

async function compareOn(
  runtime: RuntimeName,
  subject: Subject,
  group: Group,
  server: BenchServer,
): Promise<Figure[]> {
  const plans = group.contenders.filter(({ runtimes = RUNTIMES }) => runtimes.includes(runtime));
  const processes = new Map<string, ContenderProcess>();
  const failures = new Map<string, string>();
  try {
    for (const plan of plans) {
      const opening = openingOf(runtime, subject, group, server, plan);
      const own = plan.ownNode ? await takeOwnNode(subject.folder) : undefined;
      if (own !== undefined && "missing" in own) {
        failures.set(plan.name, own.missing);
        continue;
      }
      await startContender(runtime, plan.module, opening, own).then(
        (started) => processes.set(plan.name, started),
        (error) => failures.set(plan.name, reason(error)),
      );
    }
    const figures: Figure[] = [];
    for (const comparison of group.comparisons) {
      const { id, title, count } = comparison;
      const contenders = await compare(comparison, processes, failures);
      figures.push({ comparison: id, runtime, title, count, contenders });
    }
    return figures;
  } finally {
    for (const process of processes.values()) await process.end();
  }
}

function openingOf(
  runtime: RuntimeName,
  subject: Subject,
  { engine, keepsMessages }: Group,
  server: BenchServer,
  { name, module, settings = {} }: ContenderPlan,
): Opening {
  const own = `bench_${name.replaceAll(/\W+/g, "_")}${keepsMessages ? "" : `_${runtime}`}`;
  const { folder } = subject;
  const url = module === "lastcall" ? mailboxUrl(engine, server.url, folder, own) : server.url;
  const peers = join(root, "bench", "peers");
  return { entry: subject.entry(runtime), peers, url, folder, name: own, settings };
}

/** Runs a comparison. A contender that fails is skipped from then on. */
async function compare(
  { id: _, title: __, contenders, rounds: most = ROUNDS, ...task }: Comparison,
  processes: ReadonlyMap<string, ContenderProcess>,
  failures: Map<string, string>,
): Promise<Record<string, Measured>> {
  const names = contenders.filter((name) => processes.has(name) || failures.has(name));
  const values = new Map<string, Record<string, number[]>>();
  const turn = async (name: string, counted: boolean) => {
    if (failures.has(name)) return;
    try {
      const took = await processes.get(name)!.perform(task);
      if (!counted) return;
      const all = values.get(name) ?? {};
      for (const [key, value] of Object.entries(took)) (all[key] ??= []).push(rounded(value));
      values.set(name, all);
    } catch (error) {
      failures.set(name, reason(error));
    }
  };
  for (const name of names) await turn(name, false);
  for (const _ of rounds(most, LIMIT_MS)) {
    for (const name of shuffled(names)) await turn(name, true);
  }
  return Object.fromEntries(names.map((name) => {
    const failed = failures.get(name);
    return [name, failed === undefined ? { rounds: values.get(name) ?? {} } : { failed }];
  }));
}

/** The measurements are less precise than four digits. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

function shuffled<T>(values: readonly T[]): T[] {
  return values.map((value) => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at).map(({ value }) => value);
}

/** Returns the first line of an error, without the paths of this machine. */
function reason(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const line = text.split("\n").map((it) => it.trim()).find((it) => it !== "") ?? "unknown";
  return line.replaceAll(/(file:\/\/)?\/[\w./@+-]{3,}/g, "…").slice(0, 160);
}
