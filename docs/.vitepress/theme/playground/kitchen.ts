// The kitchen of the playground: one queue of orders, its workers, and what the page shows of them.

import type { Clock } from "../../../../src/clock.ts";
import { errorText } from "../../../../src/errors.ts";
import type { Log } from "../../../../src/log.ts";
import { identityCodec } from "../../../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../../../src/mailbox/engine_mailbox.ts";
import { MemoryEngine } from "../../../../src/mailbox/memory_engine.ts";
import {
  type Hand,
  LEASE_MS,
  type Observer,
  type Order,
  type Settlement,
  WorkerProcess,
} from "./process.ts";

/** The most orders in the queue, so that a page that is left alone stays small. */
const MAX_ORDERS = 200;
export const MAX_WORKERS = 6;
const MAX_EVENTS = 50;

/** What the reader can set while the kitchen runs. */
export interface Settings {
  ordersPerMinute: number;
  /** How long a handler call takes. */
  handlerMs: number;
  /** Orders at a time, for workers that start from now on. */
  concurrency: number;
}

/** An order in the hands of a worker, as the page shows it. */
export interface HandView {
  readonly id: string;
  readonly delivery: number;
  /** The part of the work that is done, from 0 to 1. */
  readonly progress: number;
  /** The time until the lease expires; 0 when it has. */
  readonly leaseMs: number;
  /** The same as a part of the whole lease. */
  readonly leaseShare: number;
}

/** A worker, as the page shows it. */
export interface WorkerView {
  readonly name: string;
  readonly state: string;
  readonly ended: boolean;
  readonly frozen: boolean;
  readonly handled: number;
  readonly hands: readonly HandView[];
  /** How its last process ended. */
  readonly end: string | undefined;
}

/** Where the orders are. `sent` is the sum of the others. */
export interface OrderCounts {
  readonly sent: number;
  readonly handled: number;
  readonly waiting: number;
  readonly delayed: number;
  readonly inFlight: number;
  readonly dead: number;
}

/** A line of the event log. */
export interface KitchenEvent {
  readonly number: number;
  readonly text: string;
}

/** Everything that the page shows. */
export interface KitchenView {
  readonly counts: OrderCounts;
  readonly redelivered: number;
  readonly refused: number;
  readonly workers: readonly WorkerView[];
  /** Newest first. */
  readonly events: readonly KitchenEvent[];
}

/** A place for one process at a time. */
class Worker {
  readonly name: string;
  process: WorkerProcess | undefined;
  /** What killed processes held. Their leases have not expired yet. */
  abandoned: Hand[] = [];
  handled = 0;
  end: string | undefined;
  /** When the process was frozen: the work of its hands stands still. */
  frozenAt: number | undefined;

  constructor(name: string) {
    this.name = name;
  }
}

/** The orders and the workers. All time comes from `clock`. */
export class Kitchen {
  readonly settings: Settings;
  readonly #clock: Clock;
  readonly #engine: MemoryEngine<unknown>;
  readonly #orders: EngineMailbox<Order, never, unknown>;
  readonly #workers: Worker[] = [];
  #events: readonly KitchenEvent[] = [];
  #lastEvent = 0;
  #sent = 0;
  #handled = 0;
  #redelivered = 0;
  #refused = 0;

  constructor(clock: Clock, settings: Settings) {
    this.settings = settings;
    this.#clock = clock;
    this.#engine = new MemoryEngine("orders", MAX_ORDERS, clock);
    const log = this.#log("queue");
    this.#orders = new EngineMailbox("orders", this.#engine, identityCodec, { clock, log });
    this.#sendAtRate();
  }

  /** Sends orders. A poison order fails in every handler. */
  async send(count: number, poison = false): Promise<void> {
    for (let i = 0; i < count; i++) {
      try {
        const id = `${poison ? "poison" : "order"}-${this.#sent + 1}`;
        const sending = this.#orders.send({ poison }, { id });
        this.#sent++;
        await sending;
      } catch (error) {
        this.#sent--;
        return this.#note(`Order refused: ${errorText(error)}`);
      }
    }
  }

  /** Adds a worker and starts its process. */
  addWorker(): void {
    if (this.#workers.length === MAX_WORKERS) return;
    const worker = new Worker(`Worker ${this.#workers.length + 1}`);
    this.#workers.push(worker);
    this.start(worker.name);
  }

  /** Starts a process in the place of one that has ended. */
  start(name: string): void {
    const worker = this.#worker(name);
    if (worker.process?.ended === false) return;
    const { concurrency } = this.settings;
    worker.end = undefined;
    const process = worker.process = new WorkerProcess({
      engine: this.#engine,
      clock: this.#clock,
      concurrency,
      handlerMs: () => this.settings.handlerMs,
      log: this.#log(name),
      observer: this.#observer(worker),
    });
    process.run().catch((error) => this.#note(`${name} failed: ${errorText(error)}`));
  }

  /** Sends SIGTERM to a worker. */
  stop(name: string): void {
    const { process } = this.#worker(name);
    if (process === undefined || process.ended) return;
    this.#note(
      `${name}: SIGTERM sent${process.frozen ? "; it arrives when the process continues" : ""}`,
    );
    process.terminate();
  }

  /** Ends the process of a worker as SIGKILL does. */
  kill(name: string): void {
    this.#worker(name).process?.kill();
  }

  /** Freezes the process of a worker, or lets a frozen one continue. */
  toggleFreeze(name: string): void {
    const worker = this.#worker(name);
    const { process } = worker;
    if (process === undefined || process.ended) return;
    this.#note(`${name}: ${process.frozen ? "continues" : "frozen"}`);
    worker.frozenAt = process.frozen ? undefined : this.#clock.monotonic();
    if (process.frozen) process.thaw();
    else process.freeze();
  }

  /** Returns what the page shows now. */
  view(): KitchenView {
    const { waiting, delayed = 0, inFlight = 0 } = this.#engine.stats();
    return {
      counts: {
        sent: this.#sent,
        handled: this.#handled,
        ...{ waiting, delayed, inFlight },
        dead: this.#engine.deadLetters().count(),
      },
      redelivered: this.#redelivered,
      refused: this.#refused,
      workers: this.#workers.map((worker) => this.#workerView(worker)),
      events: this.#events,
    };
  }

  #workerView(worker: Worker): WorkerView {
    const { name, process, handled, end, frozenAt } = worker;
    const now = this.#clock.monotonic();
    worker.abandoned = worker.abandoned.filter(({ leaseEndsAt }) => leaseEndsAt > now);
    const held = process === undefined || process.ended ? [] : process.hands;
    return {
      name,
      state: process?.state ?? "stopped",
      ended: process?.ended ?? true,
      frozen: process?.frozen ?? false,
      handled,
      hands: [...worker.abandoned, ...held].map((hand) => handView(hand, now, frozenAt ?? now)),
      end,
    };
  }

  #worker(name: string): Worker {
    const worker = this.#workers.find((it) => it.name === name);
    if (worker === undefined) throw new TypeError(`There is no worker "${name}"`);
    return worker;
  }

  #observer(worker: Worker): Observer {
    const { name } = worker;
    return {
      onPhase: (phase, reason) => this.#note(`${name}: ${phase} (${reason})`),
      onDelivery: ({ id, delivery }) => {
        if (delivery === 1) return;
        this.#redelivered++;
        this.#note(`${name}: received ${id} again (delivery ${delivery})`);
      },
      onLeaseLost: ({ id }) =>
        this.#note(`${name}: lease lost: ${id} could not be extended in time`),
      onSettled: (hand, how, done) => this.#onSettled(worker, hand, how, done),
      onEnd: (exitCode, report) => {
        worker.frozenAt = undefined;
        worker.abandoned.push(...worker.process?.hands ?? []);
        worker.end = report === undefined ? endText(exitCode) : String(report);
        this.#note(`${name}: ${exitCode === undefined ? "killed" : `exit code ${exitCode}`}`);
      },
    };
  }

  #onSettled(worker: Worker, { id, delivery }: Hand, how: Settlement, done: boolean): void {
    const { name } = worker;
    if (!done) {
      this.#refused++;
      return this.#note(
        `${name}: ${how} of ${id} refused: the lease of delivery ${delivery} has expired`,
      );
    }
    if (how === "acknowledge") {
      this.#handled++;
      worker.handled++;
    }
    // One line for every order would hide the others.
    if (how !== "acknowledge" || delivery > 1) {
      const done = how === "acknowledge" ? "handled" : `${how} of`;
      this.#note(`${name}: ${done} ${id} (delivery ${delivery})`);
    }
  }

  /** Sends an order at the rate of the settings, which can change at any time. */
  #sendAtRate(): void {
    const { ordersPerMinute } = this.settings;
    const idleMs = 500; // how soon a rate above 0 is noticed
    const ms = ordersPerMinute > 0 ? 60_000 / ordersPerMinute : idleMs;
    this.#clock.schedule(ms, () => {
      if (this.settings.ordersPerMinute > 0) void this.send(1);
      this.#sendAtRate();
    });
  }

  /** Shows the warnings and errors that the package logs. */
  #log(source: string): Log {
    const note = (message: string, { id, error }: Record<string, unknown> = {}) => {
      const what = [id, error === undefined ? undefined : errorText(error)];
      const details = what.filter((it) => it !== undefined).join(": ");
      this.#note(`${source}: ${message}${details === "" ? "" : ` (${details})`}`);
    };
    return { debug() {}, info() {}, warn: note, error: note };
  }

  #note(text: string): void {
    const event = { number: ++this.#lastEvent, text };
    this.#events = [event, ...this.#events].slice(0, MAX_EVENTS);
  }
}

function handView({ id, delivery, leaseEndsAt, work }: Hand, now: number, at: number): HandView {
  const leaseMs = Math.max(0, leaseEndsAt - now);
  const progress = work === undefined ? 0 : Math.min(1, (at - work.startedAt) / work.ms);
  return { id, delivery, progress, leaseMs, leaseShare: Math.min(1, leaseMs / LEASE_MS) };
}

function endText(exitCode: number | undefined): string {
  const how = exitCode === undefined ? "killed" : `ended at once, exit code ${exitCode}`;
  return `${how}: no report. Its orders are delivered again when their leases expire.`;
}
