// One simulation: a scenario from its first event to its end, with all rules checked after each step.

import type { DrainReport } from "../src/lifecycle/drain_report.ts";
import { seededRandom } from "../src/random.ts";
import { SLOT_MS } from "./cron_slots.ts";
import { Host } from "./host.ts";
import { Ledger } from "./ledger.ts";
import { Link } from "./link.ts";
import { INBOX } from "./member.ts";
import { checkEnd, checkStopped } from "./rules.ts";
import { BUSY_MS, type PlannedFault, type PlannedTask, type Scenario } from "./scenario.ts";
import { Scheduler } from "./scheduler.ts";
import { Sender } from "./sender.ts";
import { Server } from "./server.ts";
import { Timeline, Violation } from "./timeline.ts";
import type { Tracked } from "./tracked.ts";
import { CRON_QUEUE, QUEUE } from "./jobs.ts";
import { Worker } from "./worker.ts";

/** When all messages must be handled, at the latest. */
const SETTLED_BY_MS = 1_800_000;

/** How long the last stop may take. */
const LAST_STOP_MS = 60_000;

/** The most steps of a simulation. The longest of a million had 60,000. */
const MOST_STEPS = 200_000;

/** How often the simulation looks whether all messages are handled. */
const LOOK_MS = 1_000;

/** What a simulation was like. */
export interface Result {
  /** The same on every runtime. */
  readonly hash: string;
  readonly steps: number;
  readonly simulatedMs: number;
  readonly faults: number;
  /** The rule that was broken, if one was. */
  readonly violation: Violation | undefined;
  readonly timeline: Timeline;
}

/** Runs a scenario. */
export async function simulate(scenario: Scenario): Promise<Result> {
  const simulation = new Simulation(scenario);
  return await simulation.run();
}

class Simulation {
  readonly #scenario: Scenario;
  readonly #scheduler = new Scheduler();
  readonly #timeline = new Timeline(() => this.#scheduler.now);
  readonly #ledger = new Ledger(this.#scheduler, this.#timeline);
  readonly #server: Server;
  readonly #random;
  readonly #sender: Sender;
  readonly #workers: (Worker | undefined)[];
  #starts = 0;
  /** When the last stop began. */
  #endedAt = Infinity;
  /** Processes that end are not started again. */
  #ending = false;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#server = new Server(this.#scheduler, this.#ledger, scenario.handsOver);
    this.#random = seededRandom(scenario.seed);
    this.#workers = scenario.workers.map(() => undefined);
    this.#sender = new Sender({
      link: this.#connect("sender", { skewMs: 0, rate: 1 }),
      server: this.#server,
      ledger: this.#ledger,
      random: seededRandom(scenario.seed + 1),
    });
    for (const { maxDeliveries } of scenario.workers) {
      this.#ledger.deadLetters.allowDeliveries(QUEUE, maxDeliveries);
    }
  }

  async run(): Promise<Result> {
    const { messages, tasks, faults, workers, deployMs } = this.#scenario;
    workers.forEach((_, i) => this.#start(i));
    messages.forEach((it, i) =>
      this.#scheduler.after(it.atMs, () => void this.#sender.send(it, i))
    );
    tasks.forEach((it) => this.#scheduler.after(it.atMs, () => this.#sendTask(it)));
    faults.forEach((it) => this.#scheduler.after(it.atMs, () => this.#inject(it)));
    this.#scheduler.after(BUSY_MS, () => this.#lookForEnd());
    this.#scheduler.after(BUSY_MS + deployMs, () => this.#deploy());
    let steps = 0;
    let violation: Violation | undefined;
    try {
      await this.#scheduler.run(SETTLED_BY_MS + LAST_STOP_MS, () => {
        if (++steps > MOST_STEPS) this.#ledger.broken("nothing spins", `${MOST_STEPS} steps`);
        this.#ledger.check(this.#server);
      });
      checkEnd(this.#ledger, this.#endedAt);
      this.#ledger.cron.check(this.#endedAt);
      this.#ledger.check(this.#server);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      violation = error;
    }
    return {
      hash: this.#timeline.hash,
      steps,
      simulatedMs: Math.min(this.#scheduler.now, this.#endedAt),
      faults: faults.length,
      violation,
      timeline: this.#timeline,
    };
  }

  /** Replaces all processes, as a deploy does: it ends handlers that hang. */
  #deploy(): void {
    if (this.#ending) return;
    for (const worker of this.#workers) {
      if (worker !== undefined && !worker.ended) this.#signal(worker, "SIGTERM");
    }
    this.#scheduler.after(this.#scenario.deployMs, () => this.#deploy());
  }

  /** Stops all processes when all messages are handled, or much too late. */
  #lookForEnd(): void {
    const recently = this.#scheduler.now - SLOT_MS;
    const isNew = ({ queue, sentAt }: Tracked) => queue === CRON_QUEUE && sentAt > recently;
    const isDone = this.#sender.unsent === 0 && this.#ledger.open.every(isNew);
    if (!isDone && this.#scheduler.now < SETTLED_BY_MS) {
      this.#scheduler.after(LOOK_MS, () => this.#lookForEnd());
      return;
    }
    this.#ending = true;
    this.#endedAt = this.#scheduler.now;
    this.#sender.link.host.kill();
    for (const worker of this.#workers) {
      if (worker !== undefined && !worker.ended) this.#signal(worker, "SIGTERM");
    }
  }

  #connect(name: string, error: { readonly skewMs: number; readonly rate: number }): Link {
    const host = new Host(name, this.#scheduler, error);
    const { latencyMs } = this.#scenario;
    return new Link(host, this.#server, this.#scheduler, this.#random, { latencyMs });
  }

  #start(i: number): void {
    const plan = this.#scenario.workers[i]!;
    const number = ++this.#starts;
    const link = this.#connect(`w${i + 1}.${number}`, plan);
    const member = this.#scenario.tasks.length > 0 ? memberId(i) : undefined;
    const worker = new Worker({ ...plan, member }, {
      link,
      server: this.#server,
      ledger: this.#ledger,
      timeline: this.#timeline,
      random: seededRandom(this.#scenario.seed + 1 + number),
      onEnd: (report) => this.#ended(i, worker, report),
    });
    this.#workers[i] = worker;
    void worker.run();
  }

  #ended(i: number, worker: Worker, report: DrainReport | undefined): void {
    const { link: { host }, stop } = worker;
    checkStopped(this.#ledger, worker, report);
    if (stop === undefined && report !== undefined) {
      this.#ledger.broken("runs go on", `${host.name} ended without a reason`);
    }
    if (this.#ending) return;
    this.#scheduler.after(this.#scenario.workers[i]!.restartMs, () => {
      if (!this.#ending) this.#start(i);
    });
  }

  #sendTask(task: PlannedTask): void {
    void this.#sender.sendTask(memberId(task.to % this.#workers.length), task);
  }

  #inject({ kind, target, ms, losses }: PlannedFault): void {
    const worker = this.#workers[(target + this.#workers.length - 1) % this.#workers.length];
    const link = target === 0 ? this.#sender.link : worker?.link;
    const alive = worker?.ended === false ? worker : undefined;
    this.#timeline.add("fault", `${kind} ${target} ${ms} ms`);
    switch (kind) {
      case "kill":
        return alive?.kill("is killed");
      case "freeze":
        alive?.link.disturb(ms);
        return alive?.link.host.freeze(ms);
      case "term":
      case "interrupt":
        return alive && this.#signal(alive, kind === "term" ? "SIGTERM" : "SIGINT");
      case "termTwice":
        if (alive !== undefined) this.#signal(alive, "SIGTERM");
        this.#scheduler.after(ms, () => alive && this.#signal(alive, "SIGTERM"));
        return;
      case "cut":
        return link?.cut(ms);
      case "silence":
        return link?.silence(ms);
      case "slow":
        return link?.slow(ms);
      case "lose":
        return link?.lose(losses);
      case "loseReceives":
        return link?.loseReceives(losses.length);
      case "jump":
        return alive?.link.host.jump(ms * 4 - 20_000);
      case "cancel":
        return this.#sender.cancel(target);
      case "pause":
        return this.#sender.pause(ms);
      case "restartServer":
        return this.#server.restart(Math.min(ms, 5_000));
      case "freezeServer":
        return this.#server.freeze(Math.min(ms, 5_000));
    }
  }

  /** Sends a signal, and later looks whether the process has ended in time. */
  #signal(worker: Worker, name: "SIGTERM" | "SIGINT"): void {
    const isFirst = worker.signals === 0;
    worker.signal(name, () => {
      const { link } = worker;
      return link.undisturbedSince(this.#scheduler.now) && worker.running === 0 &&
        !this.#ledger.open.some(({ lease, queue }) => {
          return lease?.link === link || queue === `${INBOX}${worker.plan.member}`;
        });
    });
    if (isFirst) this.#boundStop(worker);
  }

  #boundStop(worker: Worker): void {
    const { link: { host }, plan } = worker;
    const check = () => {
      if (worker.ended) return;
      const { stop } = worker;
      const frozen = host.frozen || stop === undefined;
      const usedMs = frozen ? 0 : host.monotonic() - stop.at - (host.frozenMs - stop.frozenMs);
      const leftMs = plan.shutdownTimeoutMs + SLACK_MS - usedMs;
      if (leftMs <= 0) {
        return this.#ledger.broken(
          "a stop is bounded",
          `${host.name} still runs ${Math.round(usedMs)} ms after a signal`,
        );
      }
      this.#scheduler.after(Math.max(leftMs, LOOK_MS), check);
    };
    this.#scheduler.after(0, check);
  }
}

function memberId(i: number): string {
  return `w${i + 1}`;
}

/** Timers of a process may be a little late: a step takes no time, but clocks differ. */
const SLACK_MS = 500;
