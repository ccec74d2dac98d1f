import { checkInterval } from "../_checks.ts";
import { contain, settlesWithin } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { flushLibraryLog, safeLog, takeUnheard } from "../library_log.ts";
import { consoleLog, type Log } from "../log.ts";
import { type BeatRecord, defaultRuntime, type EventLoopWatch, type Runtime } from "../runtime.ts";
import type { Support } from "./resources.ts";

/**
 * The sign of life of one loop. The loop beats at every step; a watchdog looks at the age.
 *
 * @example
 * ```ts
 * import { Heartbeat } from "@lastcall/lastcall";
 * import { VirtualClock } from "@lastcall/lastcall/testing";
 *
 * const clock = new VirtualClock();
 * const heartbeat = new Heartbeat(clock);
 * await clock.advance(1_500);
 * console.assert(heartbeat.ageMs === 1_500);
 * heartbeat.beat();
 * console.assert(heartbeat.ageMs === 0);
 * ```
 */
export class Heartbeat {
  readonly #clock: Clock;
  #last: number;

  /** A heartbeat counts from its creation. */
  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.#last = clock.monotonic();
  }

  /** Says that the loop is alive. */
  beat(): void {
    this.#last = this.#clock.monotonic();
  }

  /** Says that the loop waits on purpose: for `ms` milliseconds no beat is expected. */
  rest(ms: number = Infinity): void {
    this.#last = this.#clock.monotonic() + ms;
  }

  /** Milliseconds since the last beat or the end of the rest; 0 while it rests. */
  get ageMs(): number {
    return Math.max(0, this.#clock.monotonic() - this.#last);
  }
}

/** Options of {@linkcode Watchdog}. */
export interface WatchdogOptions {
  /** Silence for longer than this ends the process. @default {720_000} */
  readonly thresholdMs?: number;
  /** How often to look; half the threshold at the most. @default {60_000} */
  readonly intervalMs?: number;
  /** Hears of a stall just before the process ends. */
  readonly onStall?: (stalled: readonly BeatRecord[]) => void;
  /** Where its thread comes from, and what it ends. @default {the one this program runs on} */
  readonly runtime?: Runtime;
  /** What silence is measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears the names and ages of what stands still, last of all. @default {libraryLog} */
  readonly log?: Log;
}

/** The default of {@linkcode WatchdogOptions.thresholdMs}: longer than any reasonable step. */
export const DEFAULT_WATCHDOG_THRESHOLD_MS = 720_000;

/** The default of {@linkcode WatchdogOptions.intervalMs}. */
export const DEFAULT_WATCHDOG_INTERVAL_MS = 60_000;

/** How long the end waits for the reader of standard error. */
const LAST_WRITE_MS = 1_000;

/**
 * Ends the process when a loop, or the event loop itself, gives no sign of life: what supervises the
 * process can start a new one, and the messages of the old one come back when their leases end.
 *
 * Loops are looked at from here. The event loop is looked at by a thread of its own, because nothing
 * here runs while it is blocked. Time in which the process was suspended counts against nobody.
 */
export class Watchdog implements Support {
  /** What reports call it by. */
  readonly name = "watchdog";
  readonly #thresholdMs: number;
  readonly #intervalMs: number;
  readonly #onStall: (stalled: readonly BeatRecord[]) => void;
  readonly #runtime: Runtime | undefined;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #watched = new Map<string, Heartbeat>();
  #thread: EventLoopWatch | undefined;
  #cancelTick: Cancel | undefined;
  #telling = false;
  #awakeSince = 0;
  #lookedAt = 0;

  /** Nothing is watched before `start`. */
  constructor(options: WatchdogOptions = {}) {
    this.#thresholdMs = checkInterval(
      "watchdogThresholdMs",
      options.thresholdMs ?? DEFAULT_WATCHDOG_THRESHOLD_MS,
    );
    this.#intervalMs = Math.min(
      checkInterval("watchdogIntervalMs", options.intervalMs ?? DEFAULT_WATCHDOG_INTERVAL_MS),
      this.#thresholdMs / 2,
    );
    this.#onStall = options.onStall ?? (() => {});
    this.#runtime = options.runtime;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
  }

  /** Watches a loop, by its name, until `unwatch`. */
  watch(name: string, heartbeat: Heartbeat): void {
    this.#watched.set(name, heartbeat);
    this.#tellSoon();
  }

  /** Stops watching a loop, which is due when it has ended. */
  unwatch(name: string): void {
    this.#watched.delete(name);
  }

  /** Begins to look. */
  start(): void {
    if (this.#cancelTick !== undefined) return;
    this.#awakeSince = this.#lookedAt = this.#clock.monotonic();
    this.#thread = this.#startThread();
    this.#tick();
  }

  /** Ends the looking, and the thread. */
  async stop(): Promise<void> {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.stop();
  }

  /** Ends like `stop`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  get #process(): Runtime {
    return this.#runtime ?? defaultRuntime();
  }

  /** A process that may not start threads is watched without one. */
  #startThread(): EventLoopWatch | undefined {
    const options = { thresholdMs: this.#thresholdMs, intervalMs: this.#intervalMs };
    try {
      return this.#process.watchEventLoop?.(options);
    } catch (error) {
      this.#log.warn(
        "The watchdog cannot start its thread and will not notice a blocked event loop",
        { error },
      );
      return undefined;
    }
  }

  #tick(): void {
    this.#cancelTick = this.#clock.schedule(this.#intervalMs, () => {
      this.#look();
      if (this.#cancelTick !== undefined) this.#tick();
    });
    this.#thread?.beat(this.#beats());
  }

  /** The thread should know the names before the first loop can block; once for all that begin now. */
  #tellSoon(): void {
    if (this.#telling) return;
    this.#telling = true;
    queueMicrotask(() => {
      this.#telling = false;
      this.#thread?.beat(this.#beats());
    });
  }

  #look(): void {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt > 2 * this.#intervalMs) this.#awakeSince = now;
    this.#lookedAt = now;
    if (now - this.#awakeSince <= this.#thresholdMs) return;

    const stalled = this.#beats().filter(({ ageMs }) => ageMs > this.#thresholdMs);
    if (stalled.length === 0) return;
    const names = stalled.map(({ name, ageMs }) => `"${name}" (${Math.round(ageMs)} ms)`);
    // Whoever finds the process dead must find out why, also where nothing else is logged.
    const giveBack = takeUnheard(consoleLog);
    this.#log.error(`no sign of life from ${names.join(", ")}: ending the process`, { stalled });
    flushLibraryLog();
    giveBack();
    contain(() => this.#onStall(stalled), (error) => {
      this.#log.error("onStall failed", { error });
    });
    this.#end();
  }

  /** Ends the process after its last words are written, or could not be. */
  #end(): void {
    const written = this.#process.terminal?.flush?.();
    if (written === undefined) return this.#process.kill();
    this.#cancelTick = undefined; // it has looked for the last time
    settlesWithin(written, LAST_WRITE_MS, this.#clock).then(() => this.#process.kill());
  }

  #beats(): readonly BeatRecord[] {
    return Array.from(this.#watched, ([name, { ageMs }]) => ({ name, ageMs }));
  }
}
