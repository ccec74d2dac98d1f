// Measures what tests cannot assert: how soon the messages of dead workers come back, and how exactly processes
// share pauses and rate limits. `npm run chaos:figures -- --kills 50 --only kills,alarms`

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Mailbox, openMailbox, silentLog } from "../mod.ts";
import { root, runtimeBinary, type RuntimeName } from "../tools/runtimes.ts";
import type { Task } from "./figures_worker.ts";
import { type ChaosEngine, loadSite, SITE_NAMES } from "./sites.ts";
import { RUN, RUNTIMES } from "./_workers.ts";

/** How long a message may take to start. Much longer than the goal, much shorter than the lease. */
const LIMIT_MS = 60_000;

/** One line of a worker: a handler started or ended. */
interface Line {
  readonly event: string;
  readonly id: string;
  readonly attempt: number;
  readonly at: number;
  readonly worker: Worker;
}

/** A worker process. */
class Worker {
  readonly ended: Promise<void>;
  over = false;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  #text = "";

  constructor(runtime: RuntimeName, args: readonly string[], onLine: (line: Line) => void) {
    const program = join(root, "chaos", "figures_worker.ts");
    this.#child = spawn(runtimeBinary(runtime), [...RUN[runtime], program, ...args], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child.stdin.on("error", () => {}); // the pipe closes when the worker ends
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const lines = (this.#text + text).split("\n");
      this.#text = lines.pop()!;
      for (const line of lines) {
        const [event = "", id = "", attempt, at] = line.split(" ");
        onLine({ event, id, attempt: Number(attempt), at: Number(at), worker: this });
      }
    });
    this.ended = new Promise((resolve) => {
      this.#child.on("close", () => {
        this.over = true;
        resolve();
      });
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends the handlers that hold their messages. */
  finish(): void {
    this.#child.stdin.write("finish\n");
  }
}

/** Workers on all runtimes, and what they reported. */
class Site implements AsyncDisposable {
  readonly engine: ChaosEngine;
  readonly mailbox: Mailbox<Task>;
  readonly url: string;
  readonly lines: Line[] = [];
  readonly workers = new Set<Worker>();
  #added = 0;
  #wake = () => {};

  private constructor(engine: ChaosEngine, url: string, mailbox: Mailbox<Task>) {
    this.engine = engine;
    this.url = url;
    this.mailbox = mailbox;
  }

  static async start(engineName: string): Promise<Site> {
    const engine = await (await loadSite(engineName)).start();
    const url = `${engine.url}?queue=figures`;
    return new Site(engine, url, await openMailbox<Task>(url, { log: silentLog }));
  }

  async add(concurrency: number, maxDeliveries = 10): Promise<Worker> {
    const runtime = RUNTIMES[this.#added++ % RUNTIMES.length]!;
    const args = [this.url, `${concurrency}`, `${maxDeliveries}`];
    const worker = new Worker(runtime, args, (line) => {
      this.lines.push(line);
      this.#wake();
    });
    this.workers.add(worker);
    void worker.ended.then(() => {
      this.workers.delete(worker);
      this.#wake();
    });
    await this.until(() => this.lines.some((it) => it.worker === worker && it.event === "ready"));
    return worker;
  }

  /** Waits until a worker has reported what `find` looks for. */
  async until<T>(find: () => T | undefined | false, limitMs = LIMIT_MS): Promise<T> {
    for (const endsAt = performance.now() + limitMs;;) {
      const found = find();
      if (found) return found;
      if (performance.now() > endsAt) throw new Error(`Nothing happened within ${limitMs} ms`);
      await Promise.race([new Promise<void>((resolve) => this.#wake = resolve), sleep(500)]);
    }
  }

  starts(id: string): Line[] {
    return this.lines.filter((it) => it.event === "started" && it.id === id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.workers) worker.kill("SIGKILL");
    await Promise.all([...this.workers].map((it) => it.ended));
    await this.mailbox.close();
    await this.engine[Symbol.asyncDispose]();
  }
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Kills the worker that holds a message, again and again. */
async function measureKills(engine: string, kills: number): Promise<string> {
  await using site = await Site.start(engine);
  await Promise.all([site.add(1), site.add(1), site.add(1)]);
  const times: number[] = [];
  for (let kill = 1; kill <= kills; kill++) {
    const id = `kill-${kill}`;
    await site.mailbox.send({ do: "hold" }, { id });
    const { worker } = await site.until(() => site.starts(id)[0]);
    const at = Date.now();
    worker.kill("SIGKILL");
    const next = await site.until(() => site.starts(id)[1]);
    times.push(next.at - at);
    await site.mailbox.cancel(id);
    next.worker.kill("SIGTERM");
    await Promise.all([worker.ended, next.worker.ended]);
    await Promise.all([site.add(1), site.add(1)]);
  }
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => Math.round(percentile(times, share)));
  return `${kills} kills, lease 300 s: p50 ${p50} ms, p99 ${p99} ms, max ${max} ms`;
}

/** Suspends the worker that holds a message for 20 s, and restarts the server during another one. */
async function measureFalseAlarms(engine: string): Promise<string> {
  await using site = await Site.start(engine);
  await Promise.all([site.add(1), site.add(1), site.add(1)]);
  const results: string[] = [];
  const hold = async (what: string, disturb: (holder: Worker) => Promise<void>) => {
    await site.mailbox.send({ do: "hold" }, { id: what });
    const { worker } = await site.until(() => site.starts(what)[0]);
    await disturb(worker);
    await sleep(8_000); // longer than a dead worker needs to be noticed
    const starts = site.starts(what).length;
    worker.finish();
    await site.until(() => site.lines.some((it) => it.event === "done" && it.id === what));
    results.push(`${what}: ${starts - 1} redeliveries`);
    worker.kill("SIGTERM");
    await worker.ended;
    await site.add(1);
  };
  await hold("suspended-20s", async (worker) => {
    worker.kill("SIGSTOP");
    await sleep(20_000);
    worker.kill("SIGCONT");
  });
  const { server } = site.engine;
  if (server !== undefined) {
    await hold("server-restarted", async () => {
      await sleep(1_500); // PostgreSQL writes a lease up to 0.6 s later, and a crash before that loses it
      await server.kill();
      await sleep(500);
      await server.start();
    });
    await hold("server-frozen-8s", async () => {
      server.freeze();
      await sleep(8_000);
      server.thaw();
    });
  }
  return results.join(", ");
}

/** Three messages of a thousand kill their process. A supervisor restarts it. */
async function measurePoison(engine: string): Promise<string> {
  await using site = await Site.start(engine);
  const began = performance.now();
  const isPoison = (n: number) => n % 300 === 150;
  await site.mailbox.sendMany(
    Array.from({ length: 1_000 }, (_, n) => isPoison(n) ? KILL : { do: "work", ms: 20 } as const),
    (_, n) => ({ id: `${n}` }),
  );
  let deaths = -1;
  for (;;) {
    const { waiting, inFlight = 0, delayed = 0 } = await site.mailbox.stats();
    if (waiting + inFlight + delayed === 0) break;
    if (site.workers.size === 0) {
      deaths++;
      await site.add(100, 5).catch(() => {}); // it may die before it is ready
    }
    await sleep(100);
  }
  const done = new Set(site.lines.filter((it) => it.event === "done").map(({ id }) => id)).size;
  const letters = await site.mailbox.deadLetters!.peek!(1_000);
  const ids = letters.map(({ body }) => Number(body.id));
  const innocent = ids.filter((n) => !isPoison(n)).length;
  return `${done} of 997 handled, ${ids.length} dead letters of which ${innocent} innocent, ` +
    `${deaths} deaths, ${((performance.now() - began) / 1_000).toFixed(0)} s`;
}

const KILL: Task = { do: "kill" };

/** Five processes share a limit of 100 a second, a pause and a cooldown. */
async function measureControl(engine: string): Promise<string> {
  await using site = await Site.start(engine);
  const { mailbox } = site;
  await mailbox.rateLimit({ max: 100, perMs: 1_000 });
  await Promise.all(Array.from({ length: 5 }, () => site.add(10)));
  const work = (count: number, ms: number) =>
    mailbox.sendMany(Array.from({ length: count }, (): Task => ({ do: "work", ms })));
  const started = () => site.lines.filter((it) => it.event === "started");
  await work(800, 0);
  await site.until(() => started().length >= 700);
  const first = started().reduce((least, { at }) => Math.min(least, at), Infinity);
  const perSecond = [0, 1, 2, 3, 4].map((second) =>
    started().filter(({ at }) => Math.floor((at - first) / 1_000) === second).length
  );
  const inFive = started().filter(({ at }) => at - first < 5_000).length;
  await site.until(() => started().length >= 800);
  await mailbox.rateLimit(false);

  await work(10_000, 5);
  await site.until(() => started().length >= 1_800);
  await mailbox.pause();
  const pausedAt = Date.now();
  await sleep(1_500);
  const late = Math.max(0, ...started().map(({ at }) => at - pausedAt));
  const resumedAt = Date.now();
  const before = started().length;
  await mailbox.resume();
  await site.until(() => started().length > before);
  const resumed = started().slice(before).reduce((least, { at }) => Math.min(least, at), Infinity);
  await mailbox.purge();

  await sleep(500);
  await work(200, 5);
  const headers = { until: `${Date.now() + 1_500}` };
  await mailbox.send({ do: "cool down", ms: 2_000 }, { id: "cool", headers, priority: 9 });
  await work(10_000, 5);
  const { at: cooledAt } = await site.until(() => site.starts("cool")[0]);
  await sleep(1_500);
  const after = started().filter(({ at }) => at > cooledAt);
  const lastStart = Math.max(0, ...after.map(({ at }) => at - cooledAt));
  return `limit of 100/s in 5 processes: ${inFive / 5} a second over 5 s (${
    perSecond.join(", ")
  }); ` +
    `last start ${late} ms after the pause, first ${resumed - resumedAt} ms after the resume; ` +
    `last start ${lastStart} ms after the 429`;
}

const MEASURES = {
  kills: measureKills,
  alarms: measureFalseAlarms,
  poison: measurePoison,
  control: measureControl,
};

const { values } = parseArgs({
  options: {
    engine: { type: "string", default: SITE_NAMES.join(",") },
    kills: { type: "string", default: "50" },
    only: { type: "string", default: Object.keys(MEASURES).join(",") },
  },
});
process.on("SIGINT", () => process.exit(130));
for (const engine of values.engine.split(",")) {
  for (const name of values.only.split(",") as (keyof typeof MEASURES)[]) {
    console.log(`${engine}, ${name}: ${await MEASURES[name](engine, Number(values.kills))}`);
  }
}
process.exit(0);
