// Measures members that stop together: the duration, its growth with their number, and the delay of notices.

import type { RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atLeast, atMost, type Goal, median, ms, type Part, times } from "./_figures.ts";
import { takeServer } from "./_servers.ts";
import type { Subject } from "./_subject.ts";

interface Stopped {
  readonly stopMs: number;
  readonly calls: number;
}

const PROCESSES = 3;
const MESSAGES = 50;
const DRAINED = 10_000;
const NOTICES = 200;
const GOAL_MS = { memory: 500, Redis: 2_000 } as const;
const GOAL_DIRECTORY_MS = 5_000;
const GOAL_GROWTH = 1.5;
const GOAL_NOTICE_MS = 10;
const GOAL_RATE = 10_000;

/** Measures members in memory, on Redis and in a directory, on every runtime. */
export async function coordination(subject: Subject): Promise<Part> {
  const server = await takeServer("redis");
  const places = { memory: "memory", ...("url" in server && { Redis: server.url }) };
  const table = [[
    "runtime",
    "place",
    "members",
    "messages each",
    "stop ms",
    "calls",
    "messages/s",
  ]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const modules = ["src/coordination/mod", "src/engines/redis/mod"].map((it) => {
      return subject.entry(runtime, it);
    });
    const inDirectory = async (members: number) => {
      const args = [...modules, "memory", "loops", String(members), "1"];
      const { stopMs } = await stopped(runtime, args);
      table.push([runtime, "directory", String(members), "1", ms(stopMs), "", ""]);
      return stopMs;
    };
    const fewMs = await inDirectory(100);
    const manyMs = await inDirectory(1_000);
    const milliseconds = (it: number) => `${ms(it)} ms`;
    goals.push(
      atMost(`${runtime}, directory: 1,000 members stop,`, manyMs, GOAL_DIRECTORY_MS, milliseconds),
      atMost(
        `${runtime}, directory: a member's time among 1,000 to that among 100,`,
        manyMs / fewMs / 10,
        GOAL_GROWTH,
        times,
      ),
    );
    for (const [place, address] of Object.entries(places)) {
      const stop = async (members: number, messages: number) => {
        const found = await stopped(runtime, [
          ...modules,
          address,
          "stop",
          `${members}`,
          `${messages}`,
        ]);
        const perSecond = (members * messages / found.stopMs * 1_000).toFixed(0);
        table.push([
          runtime,
          place,
          String(members),
          String(messages),
          ms(found.stopMs),
          address === "memory" ? "" : String(found.calls),
          perSecond,
        ]);
        return found;
      };
      const few = await stop(100, MESSAGES);
      const many = await stop(1_000, MESSAGES);
      const one = await stop(1, DRAINED);
      const on = `${runtime}, ${place}`;
      goals.push(
        atMost(`${on}: 100 members stop,`, few.stopMs, GOAL_MS[place as "memory"], milliseconds),
        atMost(
          `${on}: a member's time among 1,000 to that among 100,`,
          many.stopMs / few.stopMs / 10,
          GOAL_GROWTH,
          times,
        ),
        atLeast(
          `${on}: messages drained in a second,`,
          DRAINED / one.stopMs * 1_000,
          GOAL_RATE,
          (it) => it.toFixed(0),
        ),
      );
      if (address !== "memory") {
        const growth = many.calls / few.calls / 10;
        goals.push(
          atMost(
            `${on}: a member's calls among 1,000 to those among 100,`,
            growth,
            GOAL_GROWTH,
            times,
          ),
        );
      }
      const notices = await resultOf<number[]>(runtime, "coordination.ts", [
        ...modules,
        address,
        "notice",
        String(NOTICES),
      ]);
      goals.push(
        atMost(`${on}: a peer is notified, median,`, median(notices), GOAL_NOTICE_MS, milliseconds),
      );
    }
  }
  if ("url" in server) await server[Symbol.asyncDispose]();
  return {
    title: "Members that stop together",
    table,
    goals,
    ...("missing" in server && { notes: [server.missing] }),
  };
}

async function stopped(runtime: RuntimeName, args: readonly string[]): Promise<Stopped> {
  const found: Stopped[] = [];
  for (let i = 0; i < PROCESSES; i++) {
    found.push(await resultOf<Stopped>(runtime, "coordination.ts", args, { timeoutMs: 60_000 }));
  }
  return { stopMs: median(found.map(({ stopMs }) => stopMs)), calls: found[0]!.calls };
}
