// How long a worker on a server takes to stop: idle, with a job of one second in flight, and with the server
// frozen meanwhile. On private servers, which may be frozen; on Node, for which the peers are made.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import type * as Lastcall from "../mod.ts";
import type * as PostgresEngine from "../src/engines/postgres/mod.ts";
import type * as RedisEngine from "../src/engines/redis/mod.ts";
import { settlesWithin } from "../src/_promises.ts";
import { systemClock } from "../src/clock.ts";
import { hasBinary, missing, PrivateServer, redis } from "../tests/engines/_servers.ts";
import { privateOptions, PrivatePostgres } from "../tests/engines/postgres/_private.ts";
import { atMost, type Goal, median, ms, type Part, timed } from "./_figures.ts";
import { takePeers } from "./_peers.ts";
import { bullmqStop, graphileStop, type Stoppable } from "./_stoppable_peers.ts";
import type { Subject } from "./_subject.ts";

interface Frozen extends AsyncDisposable {
  readonly url: string;
  freeze(): void;
  thaw(): void;
}

type Start = (url: string, job: () => Promise<void>) => Promise<Stoppable>;

const JOB_MS = 1_000;
const DEADLINE_MS = 2_000;
const IDLE_ROUNDS = 9;
const SETTLE_MS = 250;
const JOB_ROUNDS = 3;
const FROZEN_LIMIT_MS = 6_000;
const TITLE = "From the request to stop to the end, on private servers, node";

/** Measures both engines beside a peer each. */
export async function engineStop(subject: Subject): Promise<Part> {
  const peers = await takePeers();
  const notes = [
    `one message in flight, the server frozen as it begins; the deadline is ${
      ms(DEADLINE_MS)
    } ms, ` +
    `and whoever has none is given up after ${ms(FROZEN_LIMIT_MS)} ms`,
  ];
  const table = [["engine", "worker", "idle, ms", "1 s job, ms", "frozen, ms"]];
  const goals: Goal[] = [];
  const lastcall = await import(subject.entry("node")) as typeof Lastcall;
  const engine = (name: string) => import(subject.entry("node", `src/engines/${name}/mod`));
  const { RedisMailbox } = await engine("redis") as typeof RedisEngine;
  const { PostgresMailbox } = await engine("postgres") as typeof PostgresEngine;
  const engines = [
    {
      name: "Redis",
      why: hasBinary(redis) ? false : missing(redis),
      server: (): Promise<Frozen> => PrivateServer.start(redis),
      open: (url: string) => RedisMailbox.open<unknown>(url, { log: lastcall.silentLog }),
      peer: { name: "BullMQ", module: "bullmq", start: bullmqStop },
    },
    {
      name: "PostgreSQL",
      why: privateOptions.skip,
      server: (): Promise<Frozen> => PrivatePostgres.start(),
      open: (url: string) => PostgresMailbox.open<unknown>(url, { log: lastcall.silentLog }),
      peer: { name: "graphile-worker", module: "graphile-worker", start: graphileStop },
    },
  ];
  for (const { name, why, server, open, peer } of engines) {
    if (why !== false) {
      notes.push(`${name} left out: ${why}`);
      continue;
    }
    const ours = await measure(server, (url, job) => startOurs(lastcall, open, url, job));
    table.push([name, "ours", ...ours.map(ms)]);
    goals.push(
      atMost(`stop on ${name}, idle`, ours[0]!, 10, (value) => `${ms(value)} ms`),
      atMost(`stop on ${name}, 1 s job`, ours[1]!, JOB_MS * 1.02, (value) => `${ms(value)} ms`),
      atMost(`stop on ${name}, frozen`, ours[2]!, DEADLINE_MS * 1.05, (value) => `${ms(value)} ms`),
    );
    if ("missing" in peers) notes.push(`${peer.name} left out: ${peers.missing}`);
    else {
      const require = createRequire(`${peers.folder}/package.json`);
      const module = await import(pathToFileURL(require.resolve(peer.module)).href);
      const theirs = await measure(server, (url, job) => peer.start(module, url, job));
      table.push([
        name,
        peer.name,
        ...theirs.map((it) => it >= FROZEN_LIMIT_MS ? `over ${ms(it)}` : ms(it)),
      ]);
    }
  }
  return { title: TITLE, table, goals, notes };
}

/** Idle, with a job, and frozen. */
async function measure(server: () => Promise<Frozen>, start: Start): Promise<number[]> {
  await using own = await server();
  const idle = [];
  for (let round = 0; round < IDLE_ROUNDS; round++) {
    const worker = await start(own.url, async () => {});
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS)); // until it waits for messages
    idle.push(await worker.stop());
    await worker.close();
  }
  const busy = [];
  for (let round = 0; round < JOB_ROUNDS; round++) {
    busy.push(await withJob(own, start, JOB_MS, false));
  }
  return [median(idle), median(busy), await withJob(own, start, 300, true)];
}

async function withJob(own: Frozen, start: Start, jobMs: number, freeze: boolean): Promise<number> {
  let began = () => {};
  const begun = new Promise<void>((resolve) => began = resolve);
  const worker = await start(own.url, async () => {
    began();
    await new Promise((resolve) => setTimeout(resolve, jobMs));
  });
  await worker.send();
  await begun;
  if (freeze) own.freeze();
  const stopping = worker.stop();
  const took = await settlesWithin(stopping, FROZEN_LIMIT_MS, systemClock)
    ? await stopping
    : FROZEN_LIMIT_MS;
  if (freeze) own.thaw();
  await settlesWithin(stopping, FROZEN_LIMIT_MS, systemClock); // or it would fail when the server ends
  await worker.close();
  return took;
}

async function startOurs(
  { LoopGroup, MailboxLoop, silentLog }: typeof Lastcall,
  open: (url: string) => Promise<Lastcall.Mailbox<unknown>>,
  url: string,
  job: () => Promise<void>,
): Promise<Stoppable> {
  const mailbox = await open(url);
  const loop = new MailboxLoop({ mailbox, handler: job, log: silentLog });
  const group = new LoopGroup([loop], { shutdownTimeoutMs: DEADLINE_MS, log: silentLog });
  const running = group.run();
  return {
    send: () => mailbox.send({}),
    stop: () =>
      timed(async () => {
        void group.shutdown();
        await running;
      }),
    close: () => mailbox.close(),
  };
}
