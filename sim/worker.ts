// One worker process of a simulation: the real group, with the real loops, on the simulated engine.

import { onAbort } from "../src/_promises.ts";
import { CronLoop } from "../src/cron/cron_loop.ts";
import { errorText } from "../src/errors.ts";
import { LoopGroup } from "../src/group/loop_group.ts";
import type { DrainReport } from "../src/lifecycle/drain_report.ts";
import type { Runnable } from "../src/lifecycle/runnable.ts";
import type { Log } from "../src/log.ts";
import type { HandlerContext } from "../src/loops/handler.ts";
import { MailboxLoop } from "../src/loops/mailbox_loop.ts";
import { jsonCodec } from "../src/mailbox/codec.ts";
import { EngineMailbox } from "../src/mailbox/engine_mailbox.ts";
import type { Message } from "../src/mailbox/mailbox.ts";
import type { Random } from "../src/random.ts";
import type { SignalName } from "../src/runtime.ts";
import { ExitError } from "../src/testing/fake_runtime.ts";
import { SimulatedEngine } from "./engine.ts";
import { CRON_QUEUE, type Job, QUEUE } from "./jobs.ts";
import type { Ledger } from "./ledger.ts";
import type { Host } from "./host.ts";
import type { Link } from "./link.ts";
import { Membership } from "./member.ts";
import { checkCancel } from "./rules.ts";
import type { Server } from "./server.ts";
import type { Timeline } from "./timeline.ts";
import { work } from "./work.ts";

/** When the cron loop sends a message. */
export const CRON_SCHEDULE = "*/10 * * * * *";

/** A loop without a heartbeat for so long ends its process. */
const WATCHDOG_MS = 120_000;

/** A message whose leases expired so often may end its process. */
const SUSPECT_AFTER = 2;

/** Signals that arrive so soon after another count as the same one. */
const SAME_SIGNAL_MS = 200;

/** What the scenario chooses for one process. */
export interface WorkerPlan {
  readonly concurrency: number;
  readonly prefetch: number | "auto";
  readonly visibilityMs: number;
  readonly shutdownTimeoutMs: number;
  readonly maxDeliveries: number;
  readonly cron: boolean;
  /** The id of the member that the process is; undefined when it takes no part in coordination. */
  readonly member?: string | undefined;
}

/** What a worker shares with the rest of the simulation. */
export interface WorkerParts {
  readonly link: Link;
  readonly server: Server;
  readonly ledger: Ledger;
  readonly random: Random;
  readonly timeline: Timeline;
  /** Called when the process has ended; with the report of a run that has ended. */
  readonly onEnd: (report: DrainReport | undefined) => void;
}

/** A worker process. */
export class Worker {
  readonly link: Link;
  readonly plan: WorkerPlan;
  readonly loop: MailboxLoop<Job, never>;
  readonly #loops: Runnable[];
  readonly #membership: Membership | undefined;
  readonly #parts: WorkerParts;
  readonly #shared: { readonly clock: Host; readonly random: Random; readonly log: Log };
  readonly #mailboxes: readonly EngineMailbox<Job, never, string>[];
  #ended = false;
  /** When the first signal arrived, and how long the process had been frozen by then. */
  stop: { readonly at: number; readonly frozenMs: number; readonly isIdle: boolean } | undefined;
  /** How many suspects run in the process, and the queues whose loops run one. */
  #suspects = 0;
  readonly #alone = new Set<string>();
  readonly #runningIn = new Map<string, number>();
  /** How many handlers run. */
  running = 0;
  /** How many signals have arrived. */
  signals = 0;
  /** A second signal was not the repetition of the first. */
  isForced = false;

  constructor(plan: WorkerPlan, parts: WorkerParts) {
    const { link, random } = parts;
    const { host } = link;
    this.link = link;
    this.plan = plan;
    this.#parts = parts;
    const log = parts.timeline.log(host.name);
    const open = (queue: string) => {
      const engine = new SimulatedEngine(queue, { ...parts, log });
      return new EngineMailbox<Job, never, string>(queue, engine, jsonCodec(), {
        clock: host,
        random,
        log,
      });
    };
    const shared = { clock: host, random, log };
    const loopOf = (mailbox: EngineMailbox<Job, never, string>) =>
      new MailboxLoop<Job, never>({
        ...shared,
        mailbox,
        concurrency: plan.concurrency,
        prefetch: plan.prefetch,
        visibilityTimeoutMs: plan.visibilityMs,
        deadLetter: { maxDeliveries: plan.maxDeliveries },
        backoff: { minMs: 200, maxMs: 4_000 },
        handler: (message, context) => this.#handle(mailbox.name, message, context),
      });
    if (plan.prefetch === "auto" || plan.prefetch === 0) parts.ledger.leases.keepsNoneWaiting(link);
    const jobs = open(QUEUE);
    this.loop = loopOf(jobs);
    const loops: Runnable[] = [this.loop];
    const mailboxes = [jobs];
    if (plan.cron) {
      const slots = open(CRON_QUEUE);
      mailboxes.push(slots);
      loops.push(
        loopOf(slots),
        new CronLoop<Job, never>({
          ...shared,
          name: "cron",
          schedule: CRON_SCHEDULE,
          mailbox: slots,
          catchUp: "all",
          body: { work: "ok", ms: 5 },
        }),
      );
    }
    this.#mailboxes = mailboxes;
    this.#loops = loops;
    this.#shared = shared;
    if (plan.member !== undefined) this.#membership = new Membership({ ...parts, log });
    host.runtime.onKill = () => this.kill("ended by its watchdog");
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Runs until the process ends. */
  async run(): Promise<void> {
    const { timeline } = this.#parts;
    timeline.add(this.link.host.name, "begins");
    try {
      this.#end(await (await this.#group()).run());
    } catch (error) {
      timeline.add(this.link.host.name, `cannot run: ${errorText(error)}`);
      this.#end(undefined);
    }
  }

  async #group(): Promise<LoopGroup> {
    const { plan: { member, shutdownTimeoutMs } } = this;
    const loops = [...this.#loops];
    if (this.#membership !== undefined && member !== undefined) {
      loops.push(
        await this.#membership.loopOf(member, (id, job, signal) => this.#serve(id, job, signal)),
      );
    }
    return new LoopGroup(loops, {
      ...this.#shared,
      runtime: this.link.host.runtime,
      shutdownTimeoutMs,
      onFailure: "restart",
      watchdogThresholdMs: WATCHDOG_MS,
      watchdogIntervalMs: 10_000,
      resources: [...this.#mailboxes, ...this.#membership?.resources ?? []],
    });
  }

  /** Handles a message of the inbox, also during the stop: the member drains its inbox. */
  async #serve(messageId: string, { work, ms }: Job, signal: AbortSignal): Promise<void> {
    const { ledger, timeline } = this.#parts;
    const { host } = this.link;
    const tracked = ledger.findOnBus(messageId)!;
    const handle = tracked.lease?.handle ?? "no lease";
    const handling = ledger.starts(this.link, tracked.queue, tracked.id, handle);
    if (this.stop !== undefined) this.stop = { ...this.stop, isIdle: false };
    // When the time of a drain is up, it releases the message and waits for no handler.
    const unlink = onAbort(signal, () => {
      handling.outcome = "cancelled";
      handling.isLeft = true;
    });
    this.running++;
    try {
      await host.sleep(ms, work === "ok" ? { signal } : {});
      if (tracked.lease?.handle === handle) handling.outcome = "done";
      timeline.add(host.name, `done ${handle}`);
    } finally {
      unlink();
      this.running--;
    }
  }

  /** Sends a signal. */
  signal(name: SignalName, isIdle: () => boolean): void {
    const { host } = this.link;
    host.later(0, () => {
      const { timeline, ledger } = this.#parts;
      timeline.add(host.name, `gets ${name}`);
      this.signals++;
      if (this.stop !== undefined && host.monotonic() - this.stop.at >= SAME_SIGNAL_MS) {
        this.isForced = true;
      }
      this.stop ??= { at: host.monotonic(), frozenMs: host.frozenMs, isIdle: isIdle() };
      ledger.idle.stops(this.link);
      try {
        host.runtime.send(name);
      } catch (error) {
        if (!(error instanceof ExitError)) throw error;
        timeline.add(host.name, `exits with ${error.code}`);
        this.#end(undefined);
      }
    });
  }

  /** Ends the process as SIGKILL does. */
  kill(why: string): void {
    if (this.#ended) return;
    this.#parts.timeline.add(this.link.host.name, why);
    const { ledger, server } = this.#parts;
    ledger.died(this.link, (queue) => server.owns(this.link, queue));
    this.#end(undefined);
  }

  #end(report: DrainReport | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    const { timeline, ledger, onEnd } = this.#parts;
    if (report !== undefined) {
      timeline.add(this.link.host.name, `ended: ${String(report).split("\n")[0]}`);
    }
    ledger.idle.stops(this.link);
    onEnd(report);
    this.link.host.kill();
  }

  #count(queue: string): number {
    return this.#runningIn.get(queue) ?? 0;
  }

  async #handle(
    queue: string,
    message: Message<Job, never>,
    context: HandlerContext,
  ): Promise<void> {
    const { ledger, timeline } = this.#parts;
    const { host } = this.link;
    const { id, receiptHandle } = message;
    if (this.stop !== undefined) ledger.broken("a stop starts nothing", receiptHandle);
    const handling = ledger.starts(this.link, queue, id, receiptHandle);
    const isSuspect = (message.leaseExpiries ?? 0) >= SUSPECT_AFTER;
    if (
      this.#suspects > 0 && isSuspect || this.#alone.has(queue) ||
      isSuspect && this.#count(queue) > 0
    ) {
      ledger.broken("suspects run alone", receiptHandle);
    }
    if (isSuspect) this.#alone.add(queue);
    this.#suspects += Number(isSuspect);
    this.#runningIn.set(queue, this.#count(queue) + 1);
    this.running++;
    try {
      await work({
        ...{ message, context, handling, link: this.link, ledger },
        tracked: ledger.find(queue, id),
        kill: (why) => this.kill(why),
      });
      if (handling.outcome === "running") handling.outcome = "done";
      if (message.body.work === "ok") ledger.done(handling);
      timeline.add(host.name, `done ${receiptHandle}`);
    } catch (error) {
      handling.outcome = context.signal.aborted ? "cancelled" : "failed";
      checkCancel(ledger, this, receiptHandle, context.signal);
      timeline.add(host.name, `${handling.outcome} ${receiptHandle}`);
      throw error;
    } finally {
      this.running--;
      this.#runningIn.set(queue, this.#count(queue) - 1);
      this.#suspects -= Number(isSuspect);
      if (isSuspect) this.#alone.delete(queue);
    }
  }
}
