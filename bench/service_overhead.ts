// What counting requests and being able to refuse them costs a service, compared with a bare Hono app.

import { runtimeBinary } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, median, type Part, times } from "./_figures.ts";
import type { Subject } from "./_subject.ts";

/** What something took; of the server's process alone, the client has its own. */
interface Took {
  readonly ms: number;
  readonly cpuMs: number;
}

const WAYS = ["bare", "gate", "idle middleware", "middleware"] as const;
type Ways = Readonly<Record<typeof WAYS[number], readonly Took[]>>;

const COUNT = 2_000;
const ROUNDS = 25;
const GOAL = 1.05;
const GOALS: readonly string[] = ["gate", "middleware"];

/** Measures the middleware and the gate of a service on every runtime. */
export async function serviceOverhead(subject: Subject): Promise<Part> {
  const table = [["runtime", "requests", "way", "µs CPU each", "to the bare app", "by time"]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const { called, asked } = await resultOf<{ called: Ways; asked: Ways }>(
      runtime,
      "service_overhead.ts",
      [
        subject.entry(runtime),
        subject.entry(runtime, "src/service/mod"),
        String(COUNT),
        String(ROUNDS),
        runtimeBinary("node"),
      ],
      { timeoutMs: 90_000 },
    );
    for (const [where, ways] of [["in process", called], ["over loopback", asked]] as const) {
      for (const way of WAYS) {
        const cpu = ratio(ways, way, ({ cpuMs }) => cpuMs);
        const time = ratio(ways, way, ({ ms }) => ms);
        const each = median(ways[way].map(({ cpuMs }) => cpuMs)) / COUNT * 1_000;
        table.push([runtime, where, way, each.toFixed(2), times(cpu), times(time)]);
        if (!GOALS.includes(way) || where === "in process") continue;
        goals.push(
          atMost(`${runtime}: ${way} over loopback, CPU to the bare app,`, cpu, GOAL, times),
        );
      }
    }
  }
  return {
    title: "A service that counts its requests, compared with a bare Hono app",
    table,
    goals,
    notes: [
      "gate: what a ServiceLoop does with each request. middleware: drainable() in your own server.",
      "idle middleware: one that only calls the next, which shows what any middleware costs in Hono.",
      "In process there is no server, no connection and no client: a request is little more than its objects.",
    ],
  };
}

/** The typical ratio of a round, in which all had their turns in the same noise. */
function ratio(ways: Ways, way: keyof Ways, of: (took: Took) => number): number {
  return median(ways[way].map((took, round) => of(took) / of(ways.bare[round]!)));
}
