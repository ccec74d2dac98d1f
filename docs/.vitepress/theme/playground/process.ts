// One worker of the playground: a simulated process with the real group, loop and mailbox of the package.
// It hears from outside only through the timers of its clock, so a process whose clock is frozen is frozen.

import {
  type Cancel,
  type Clock,
  sleepBySchedule,
  type SleepOptions,
} from "../../../../src/clock.ts";
import type { Log } from "../../../../src/log.ts";
import { LoopGroup } from "../../../../src/group/loop_group.ts";
import type { DrainReport } from "../../../../src/lifecycle/drain_report.ts";
import { MailboxLoop } from "../../../../src/loops/mailbox_loop.ts";
import { identityCodec } from "../../../../src/mailbox/codec.ts";
import type { Delivery, Engine, Entry, Maybe, Received } from "../../../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../../../src/mailbox/engine_mailbox.ts";
import { ExitError, FakeRuntime } from "../../../../src/testing/fake_runtime.ts";
import { FaultyEngine } from "../../../../src/testing/faulty_engine.ts";

/** How long a received order is hidden from the other workers. */
export const LEASE_MS = 6_000;
/** How long a graceful stop may take. */
export const SHUTDOWN_TIMEOUT_MS = 10_000;
/** How long an answer of the engine takes, as over a network. */
const ROUND_TRIP_MS = 20;

/** The body of a message. */
export interface Order {
  /** True for an order whose handler always throws. */
  readonly poison: boolean;
}

/** What a process needs to start. */
export interface ProcessOptions {
  readonly engine: Engine<unknown>;
  readonly clock: Clock;
  /** How many orders the process handles at a time. */
  readonly concurrency: number;
  /** How long a handler call takes, read at each call. */
  readonly handlerMs: () => number;
  /** Receives the records that the package logs. */
  readonly log: Log;
  readonly observer: Observer;
}

/** Learns what happens in a process. */
export interface Observer {
  onPhase(phase: string, reason: string): void;
  onDelivery(hand: Hand): void;
  /** Called for every settlement. `done` is false when the engine refused it because the lease had expired. */
  onSettled(hand: Hand, how: Settlement, done: boolean): void;
  /** Called when the engine refused to extend a lease that had expired. */
  onLeaseLost(hand: Hand): void;
  /** Called when the process has ended, with the report of a graceful stop. */
  onEnd(exitCode: number | undefined, report: DrainReport | undefined): void;
}

export type Settlement = "acknowledge" | "nack" | "release" | "dead-letter";

/** An order in the hands of a worker. */
export interface Hand {
  readonly id: string;
  readonly delivery: number;
  /** When the lease ends, by the clock of the engine. */
  leaseEndsAt: number;
  /** When the handler was called and how long it takes; undefined before. */
  work: { readonly startedAt: number; readonly ms: number } | undefined;
}

/** A clock whose time goes on while it is frozen, like that of a stopped process: only its timers wait. */
export class ProcessClock implements Clock {
  readonly #base: Clock;
  #held: Set<() => void> | undefined;

  constructor(base: Clock) {
    this.#base = base;
  }

  now(): number {
    return this.#base.now();
  }

  monotonic(): number {
    return this.#base.monotonic();
  }

  sleep(ms: number, options?: SleepOptions): Promise<void> {
    return sleepBySchedule(this, ms, options);
  }

  schedule(ms: number, task: () => void): Cancel {
    const run = () => void (this.#held === undefined ? task() : this.#held.add(task));
    const cancel = this.#base.schedule(ms, run);
    return () => {
      cancel();
      this.#held?.delete(task);
    };
  }

  /** Lets due timers wait. */
  freeze(): void {
    this.#held ??= new Set();
  }

  /** Runs the timers that have become due, in their order. */
  thaw(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const task of held) task();
  }
}

/** The engine as one process sees it: every answer takes a round trip, and none arrives while it is frozen. */
class ProcessEngine extends FaultyEngine<unknown> {
  /** What the process holds, by receipt handle. */
  readonly hands = new Map<string, Hand>();
  readonly #clock: Clock;
  readonly #observer: Observer;

  constructor(engine: Engine<unknown>, clock: Clock, observer: Observer) {
    super(engine);
    this.#clock = clock;
    this.#observer = observer;
  }

  override receive(max: number, visibilityMs: number): Promise<Received<unknown>> {
    return this.#answer(super.receive(max, visibilityMs), ({ deliveries }) => {
      for (const { id, deliveryCount: delivery, receiptHandle } of deliveries) {
        const leaseEndsAt = this.#clock.monotonic() + visibilityMs;
        const hand: Hand = { id, delivery, leaseEndsAt, work: undefined };
        this.hands.set(receiptHandle, hand);
        this.#observer.onDelivery(hand);
      }
    });
  }

  override extend(deliveries: readonly Delivery<unknown>[], visibilityMs: number) {
    return this.#answer(super.extend(deliveries, visibilityMs), (extended) => {
      for (const [i, { receiptHandle }] of deliveries.entries()) {
        const hand = this.hands.get(receiptHandle);
        if (hand === undefined) continue;
        if (extended[i]) hand.leaseEndsAt = this.#clock.monotonic() + visibilityMs;
        else this.#observer.onLeaseLost(hand);
      }
    });
  }

  override acknowledge(deliveries: readonly Delivery<unknown>[]) {
    return this.#settled("acknowledge", deliveries, super.acknowledge(deliveries));
  }

  override nack(deliveries: readonly Delivery<unknown>[], delayMs: number, countsAttempt: boolean) {
    return this.#settled("nack", deliveries, super.nack(deliveries, delayMs, countsAttempt));
  }

  override release(deliveries: readonly Delivery<unknown>[]) {
    return this.#settled("release", deliveries, super.release(deliveries));
  }

  override async deadLetter(delivery: Delivery<unknown>, letter: Entry<unknown>) {
    const moved = super.deadLetter(delivery, letter);
    const done = moved instanceof Promise ? moved.then((it) => [it]) : [moved];
    return (await this.#settled("dead-letter", [delivery], done))[0]!;
  }

  override onWake(listener: () => void): () => Maybe<void> {
    return super.onWake(() => void this.#clock.schedule(ROUND_TRIP_MS, listener));
  }

  #settled(
    how: Settlement,
    deliveries: readonly Delivery<unknown>[],
    call: Maybe<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    return this.#answer(call, (done) => {
      for (const [i, { receiptHandle }] of deliveries.entries()) {
        const hand = this.hands.get(receiptHandle);
        this.hands.delete(receiptHandle);
        if (hand !== undefined) this.#observer.onSettled(hand, how, done[i] === true);
      }
    });
  }

  /** The engine has done its part when the answer is under way: `record` sees it at once. */
  async #answer<T>(call: Maybe<T>, record: (answer: T) => void): Promise<T> {
    const answer = call instanceof Promise ? await call : call;
    record(answer);
    await this.#clock.sleep(ROUND_TRIP_MS);
    return answer;
  }
}

/** A worker process: it runs until it is stopped or killed. */
export class WorkerProcess {
  readonly #clock: ProcessClock;
  readonly #runtime = new FakeRuntime({ globals: {} });
  readonly #engine: ProcessEngine;
  readonly #group: LoopGroup;
  readonly #options: ProcessOptions;
  #state: "alive" | "frozen" | "killed" | "exited" = "alive";

  constructor(options: ProcessOptions) {
    const { concurrency, log, observer } = options;
    const clock = this.#clock = new ProcessClock(options.clock);
    this.#options = options;
    this.#engine = new ProcessEngine(options.engine, clock, observer);
    const mailbox = new EngineMailbox<Order, never, unknown>(
      "orders",
      this.#engine,
      identityCodec,
      { clock, log },
    );
    const loop = new MailboxLoop<Order, never>({
      mailbox,
      concurrency,
      clock,
      log,
      visibilityTimeoutMs: LEASE_MS,
      deadLetter: { maxDeliveries: 3 },
      backoff: { minMs: 1_000, maxMs: 4_000 },
      handler: async ({ body, receiptHandle }, { signal }) => {
        const work = { startedAt: clock.monotonic(), ms: options.handlerMs() };
        const hand = this.#engine.hands.get(receiptHandle);
        if (hand !== undefined) hand.work = work;
        await clock.sleep(work.ms, { signal });
        if (body.poison) throw new Error("this order cannot be cooked");
      },
    });
    this.#group = new LoopGroup([loop], {
      clock,
      log,
      runtime: this.#runtime,
      shutdownTimeoutMs: SHUTDOWN_TIMEOUT_MS,
      watchdogThresholdMs: false,
    });
    this.#group.on("phase", ({ phase, reason }) => observer.onPhase(phase, reason));
  }

  /** What the reader sees: how the process was ended or frozen, otherwise the phase of its group. */
  get state(): string {
    const state = this.#state;
    return state === "alive" ? this.#group.health().phase : state === "exited" ? "stopped" : state;
  }

  get ended(): boolean {
    return this.#state === "killed" || this.#state === "exited";
  }

  get frozen(): boolean {
    return this.#state === "frozen";
  }

  get hands(): readonly Hand[] {
    return [...this.#engine.hands.values()];
  }

  /** Runs the group until it has stopped. */
  async run(): Promise<void> {
    const report = await this.#group.run();
    this.#end("exited", report.exitCode, report);
  }

  /** Sends SIGTERM: the first one stops gracefully, the second cancels the work, the third ends the process. */
  terminate(): void {
    this.#clock.schedule(0, () => {
      try {
        this.#runtime.send("SIGTERM");
      } catch (error) {
        if (!(error instanceof ExitError)) throw error;
        this.#end("exited", error.code);
      }
    });
  }

  /** Ends the process as SIGKILL does: it does nothing more, and its leases expire. */
  kill(): void {
    this.#end("killed");
  }

  /** Stops the process as SIGSTOP does. Signals wait until it continues. */
  freeze(): void {
    if (this.#state !== "alive") return;
    this.#state = "frozen";
    this.#clock.freeze();
    this.#engine.freeze();
  }

  /** Continues after `freeze`. Everything that has become due meanwhile happens now. */
  thaw(): void {
    if (this.#state !== "frozen") return;
    this.#state = "alive";
    this.#engine.thaw();
    this.#clock.thaw();
  }

  #end(state: "killed" | "exited", exitCode?: number, report?: DrainReport): void {
    if (this.ended) return;
    this.#state = state;
    this.#clock.freeze(); // for ever
    this.#engine.freeze(); // promises of the process may still be due
    this.#options.observer.onEnd(exitCode, report);
  }
}
