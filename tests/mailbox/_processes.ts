import type { Cancel, Clock, SleepOptions } from "../../src/clock.ts";
import { isCancelledError } from "../../src/errors.ts";
import { isBalanced } from "../../src/lifecycle/runnable.ts";
import type { HandlerContext } from "../../src/loops/handler.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { silentLog } from "../../src/log.ts";
import { identityCodec } from "../../src/mailbox/codec.ts";
import type { Delivery, Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import type { Message } from "../../src/mailbox/mailbox.ts";

/** How long a lease lasts. Longer work needs extensions. */
const LEASE_MS = 1_000;

/** The body of a message: what its handler does. */
export interface Task {
  readonly serial: number;
  readonly key: string | undefined;
  readonly workMs: number;
  /** So many attempts fail. */
  readonly failures: number;
}

/** The options of a process. */
export interface ProcessOptions {
  readonly concurrency: number;
  readonly prefetch: number;
  /** False for a process that extends no leases: its longer handlers lose them. */
  readonly extendsLeases: boolean;
}

/** A running handler. */
interface Handling {
  readonly task: Task;
  readonly delivery: Delivery<unknown>;
}

/** Watches all handlers of all processes, and records what must not happen. */
export class Watch {
  readonly faults: string[] = [];
  /** The serial numbers that completed with a valid lease, in order. */
  readonly completed: Task[] = [];
  readonly cancelled: Set<number> = new Set();
  readonly #engine: Engine<unknown>;
  readonly #running = new Set<Handling>();
  readonly #toAbort = new Set<Handling>();

  constructor(engine: Engine<unknown>) {
    this.#engine = engine;
  }

  /** Called when a handler starts. */
  start(message: Message<Task>, extendsLeases: boolean): Handling {
    const { body: task } = message;
    const handling = { task, delivery: (message as Message<Task> & Handling).delivery };
    // A message that was received ahead may have lost its lease before it starts.
    if (task.key !== undefined && this.#isValid(handling)) {
      const others = [...this.#running].filter((it) => it.task.key === task.key);
      for (const other of others.filter((it) => this.#isValid(it))) {
        this.faults.push(
          `${task.serial} started while ${other.task.serial} of its key was running`,
        );
      }
    }
    // Without extensions, a message that was received ahead may be cancelled after its lease has expired:
    // the process that holds it is not told.
    if (extendsLeases && this.cancelled.has(task.serial)) {
      this.faults.push(`${task.serial} started when cancelled`);
    }
    this.#running.add(handling);
    return handling;
  }

  /** Called when a handler has done its work. */
  complete(handling: Handling): void {
    const { task } = handling;
    if (this.#toAbort.has(handling)) this.faults.push(`${task.serial} was not aborted`);
    if (this.#isValid(handling)) this.completed.push(task);
  }

  /** Cancels a message. A handler with a valid lease must hear of it. */
  async cancel(serial: number, cancel: () => Promise<boolean>): Promise<void> {
    const running = [...this.#running].filter((it) => it.task.serial === serial);
    const valid = running.filter((it) => this.#isValid(it));
    if (!await cancel()) return;
    this.cancelled.add(serial);
    for (const handling of valid) this.#toAbort.add(handling);
  }

  /** Called when a handler has ended in any way. */
  end(handling: Handling): void {
    this.#running.delete(handling);
  }

  /** Extending to now changes nothing, and tells whether the receipt handle is valid. */
  #isValid({ delivery }: Handling): boolean {
    return (this.#engine.extend([delivery], 0) as readonly boolean[])[0] === true;
  }
}

/** A process with one loop. A crash ends it in the middle of everything. */
export class Process {
  readonly #watch: Watch;
  readonly #extendsLeases: boolean;
  readonly #clock: ProcessClock;
  readonly #loop: MailboxLoop<Task>;
  #crashed = false;

  constructor(options: ProcessOptions, engine: Engine<unknown>, clock: Clock, watch: Watch) {
    this.#watch = watch;
    this.#extendsLeases = options.extendsLeases;
    this.#clock = new ProcessClock(clock, () => this.#crashed);
    this.#loop = new MailboxLoop({
      mailbox: new EngineMailbox<Task, unknown, unknown>(
        "orders",
        this.#connection(engine),
        identityCodec,
        { clock: this.#clock, log: silentLog },
      ),
      handler: (message, context) => this.#handle(message, context),
      clock: this.#clock,
      log: silentLog,
      visibilityTimeoutMs: LEASE_MS,
      concurrency: options.concurrency,
      prefetch: options.prefetch,
      lease: options.extendsLeases ? {} : false,
      deadLetter: { maxDeliveries: 3 },
      backoff: { minMs: 50, maxMs: 400 },
    });
    void this.#loop.run();
  }

  /** Stops gracefully, and ends when the time is over. */
  async stop(timeoutMs: number): Promise<void> {
    await this.#loop.shutdown({ timeoutMs });
    if (this.#crashed) return;
    const { counts } = this.#loop;
    if (!isBalanced(counts)) this.#watch.faults.push(`not balanced: ${JSON.stringify(counts)}`);
    this.crash();
  }

  crash(): void {
    this.#crashed = true;
  }

  async #handle(message: Message<Task>, { attempt, signal }: HandlerContext): Promise<void> {
    const handling = this.#watch.start(message, this.#extendsLeases);
    try {
      await this.#clock.sleep(message.body.workMs, { signal });
    } catch (error) {
      if (!isCancelledError(error) || error.reason !== "cancelled") throw error;
      return;
    } finally {
      this.#watch.end(handling);
    }
    if (attempt <= message.body.failures) throw new Error("as told");
    this.#watch.complete(handling);
  }

  /** Returns the engine as this process sees it: after a crash no call is made, and none is answered. */
  #connection(engine: Engine<unknown>): Engine<unknown> {
    const guarded = (listen: (listener: (id: string) => void) => unknown) => {
      return (listener: (id: string) => void) => listen((id) => this.#crashed || listener(id));
    };
    return new Proxy(engine, {
      get: (_, name: keyof Engine<unknown>) => {
        const member = engine[name];
        if (typeof member !== "function") return member;
        if (name === "onWake") return guarded(engine.onWake.bind(engine) as never);
        if (name === "onCancel") return guarded(engine.onCancel!.bind(engine));
        const call = member.bind(engine) as (...args: unknown[]) => unknown;
        return (...args: unknown[]) => this.#crashed ? new Promise(() => {}) : call(...args);
      },
    });
  }
}

/** The clock of one process. After its crash no timer ends. */
class ProcessClock implements Clock {
  readonly #clock: Clock;
  readonly #isCrashed: () => boolean;

  constructor(clock: Clock, isCrashed: () => boolean) {
    this.#clock = clock;
    this.#isCrashed = isCrashed;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  async sleep(ms: number, options?: SleepOptions): Promise<void> {
    await this.#clock.sleep(ms, options);
    if (this.#isCrashed()) await new Promise(() => {});
  }

  schedule(ms: number, task: () => void): Cancel {
    return this.#clock.schedule(ms, () => this.#isCrashed() || task());
  }
}
